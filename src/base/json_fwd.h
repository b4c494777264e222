// Names the JSON type without the cost of its header.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace cairn {

using Json = nlohmann::ordered_json;

}  // namespace cairn
