// API keys: compared in constant time, over all keys, so that neither the time nor the order tells
// anything.
#pragma once

#include <string>
#include <vector>

#include "server/exchange.h"

namespace cairn {

// True when no key is wanted, or the request carries one of `keys` as "Authorization: Bearer KEY"
// or "x-api-key: KEY".
bool is_authorized(const HttpRequest& request, const std::vector<std::string>& keys);

}  // namespace cairn
