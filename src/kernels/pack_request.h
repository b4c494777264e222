// Whether the parts of a weight are sound and fit together. Shapes and sizes come from files, so
// everything is checked before a byte is read.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "kernels/backend.h"

namespace cairn {

// Errors: kUnsupported (a type, a width, a group size: named, with what can be packed),
// kInvalidArgument (shapes, byte counts or row orders that do not fit).
Status check_pack_request(const PackRequest& request);

// Of a checked part.
size_t part_n_in(const WeightPart& part);

}  // namespace cairn
