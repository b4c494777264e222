// Template source to tree.
//
// Statements: if, for, set (also as a block), macro, call, filter, with, generation, break,
// continue. Templates that want other files (include, import, extends) are refused: a chat template
// is one file. Nesting is bounded, so hostile sources cannot exhaust the stack. Errors:
// TemplateError with the line.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace cairn::jinja {

// `source` is valid UTF-8.
Template parse_template(std::string_view source);

}  // namespace cairn::jinja
