// JSON glue: one alias, parsing as a Result, and numbers spelt as short as they can be.
//
// Keys keep the order in which they were written: chat templates print tools and arguments, and a
// changed order would change the prompt. Include json_fwd.h where only the name is needed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"

namespace cairn {

// Errors: kInvalidArgument with line and column; nesting deeper than 256 is refused.
// `allow_infinity` also takes the bare words Infinity, -Infinity and NaN, which published
// config.json files hold although JSON has none.
Result<Json> parse_json(std::string_view text, std::string_view what, bool allow_infinity = false);

// Compact, UTF-8, bytes that are not UTF-8 replaced by U+FFFD; never throws.
std::string dump_json(const Json& value);

// The shortest decimal that reads back as the same float32 ("0.1", not "0.10000000149").
std::string shortest_float(float value);
// A JSON number that dump_json prints as shortest_float does. Not finite: null.
Json json_float(float value);

}  // namespace cairn
