#include "kernels/page_layout.h"

namespace cairn {

std::string_view to_string(RowEncoding encoding) {
  return encoding == RowEncoding::kF32 ? "f32" : "bf16";
}

}  // namespace cairn
