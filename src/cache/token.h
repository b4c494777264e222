// The id of a vocabulary entry. Keys and files store it as u32, little-endian.
#pragma once

#include <cstdint>

namespace cairn {

using TokenId = uint32_t;

}  // namespace cairn
