// API keys: compared in constant time, over all keys, so that neither the time nor the order tells
// anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/exchange.h"

namespace cairn {

// The namespace of a request's cache: one for each key and salt, so that what one client computed
// neither answers nor times another's question. Made of a hash of the key, never the key itself; ""
// when no keys are configured and there is no salt. With one key configured it is still that key's:
// a store never mixes what was computed with and without keys. Requires is_authorized().
std::string cache_namespace(const HttpRequest& request,
                            const std::vector<std::string>& keys,
                            std::string_view salt);

// True when no key is wanted, or the request carries one of `keys` as "Authorization: Bearer KEY"
// or "x-api-key: KEY".
bool is_authorized(const HttpRequest& request, const std::vector<std::string>& keys);

}  // namespace cairn
