#!/usr/bin/env python3
"""Renders every template of cases.json by Jinja2 itself and writes the file anew.

    python3 make_cases.py        (Debian's python3-jinja2; the file in the tree is by Jinja2 3.1.2)

To add a case, add {"template": "..."} to the list and run this. A case is
{"template", "rendered"} or {"template", "fails": true}. The set-up is the one that model hubs
document for chat templates: immutable sandbox, trim_blocks and lstrip_blocks, loop controls, tojson
as json.dumps without escaping, raise_exception, strftime_now (here on a fixed clock).
"""
import datetime
import json
import os

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

CLOCK = datetime.datetime(2024, 7, 26, 12, 34, 56)
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.json")


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def raise_exception(message):
    raise TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def main():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = CLOCK.strftime
    with open(PATH, encoding="utf-8") as f:
        file = json.load(f)
    base = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": False}
    lines = []
    for case in file["cases"]:
        row = {"template": case["template"]}
        try:
            row["rendered"] = env.from_string(case["template"]).render({**base, **file["variables"]})
        except Exception:  # of Jinja or of Python: both mean that the template fails
            row["fails"] = True
        lines.append(json.dumps(row, ensure_ascii=True))
    with open(PATH, "w", encoding="utf-8") as f:
        f.write('{"what": %s,\n"variables": %s,\n"cases": [\n' % (json.dumps(file["what"]), json.dumps(file["variables"])))
        f.write(",\n".join(lines) + "\n]}\n")


main()
