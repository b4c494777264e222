// Renders a parsed template.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace cairn::jinja {

// A variable of the outermost scope; of equal names the last wins.
using Variables = std::vector<std::pair<std::string, Value>>;

// `make_variables` gets the budget that the values it makes are charged to.
//   now_unix  seconds since 1970, for strftime_now (UTC)
// Errors: TemplateError, with the line where it is known.
std::string render(const Template& source,
                   const std::function<Variables(Budget&)>& make_variables,
                   int64_t now_unix,
                   const Limits& limits);

}  // namespace cairn::jinja
