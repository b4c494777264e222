// Files that hold a secret: keys of clients, keys of a store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn {

// All of the file, at most n_bytes_max. `what` names it in errors ("key file").
// Errors: kInvalidArgument when others can read it; kNotFound; as read_text_file().
Result<std::string> read_secret_file(const std::string& path,
                                     std::string_view what,
                                     uint64_t n_bytes_max);

}  // namespace cairn
