// JSON glue: one alias, parsing as a Result, and numbers spelt as short as they can be.
//
// Keys keep the order in which they were written: chat templates print tools and arguments, and a
// changed order would change the prompt. Parsing takes time in proportion to the text; looking a
// key up searches all keys before it, so walk over large objects. Include json_fwd.h where only the
// name is needed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"

namespace cairn {

// `what` names the text in messages. The last of several equal keys counts.
// Errors: kInvalidArgument with line and column; nesting deeper than 256 is refused.
// `allow_infinity` also takes the bare words Infinity, -Infinity and NaN, which published
// config.json files hold although JSON has none.
Result<Json> parse_json(std::string_view text, std::string_view what, bool allow_infinity = false);

// Compact, UTF-8, bytes that are not UTF-8 replaced by U+FFFD; never throws. Numbers are spelt as
// Python's repr() spells them, which is what chat templates expect: the fewest digits that read
// back as the same double, "1.0" for a whole one, "1e+16" and "1e-05" outside 1e-4 .. 1e16. Not
// finite: null.
std::string dump_json(const Json& value);

// Whether dump_json keeps a string of these bytes as it is (Unicode 15, table 3-7).
bool is_utf8(std::string_view text);

// The same spelling with the fewest digits that read back as the same float32: "0.1", not
// "0.10000000149". "inf", "-inf" and "nan" where it is not finite.
std::string shortest_float(float value);
// A JSON number that dump_json prints as shortest_float does. Not finite: null.
Json json_float(float value);

}  // namespace cairn
