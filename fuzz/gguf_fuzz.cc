// Any bytes as a GGUF file: refused, or a layout that holds what it says.
#include <cstdint>

#include "base/check.h"
#include "formats/gguf.h"

namespace {

void check_layout(const cairn::GgufLayout& layout, uint64_t n_file) {
  uint64_t end = 0;
  for (const cairn::TensorInfo& tensor : layout.tensors) {
    const auto n_bytes = cairn::tensor_bytes(tensor.dtype, tensor.shape);
    CAIRN_CHECK(n_bytes.is_ok() && *n_bytes == tensor.n_bytes, "shape and size agree");
    CAIRN_CHECK(tensor.offset >= end, "no overlap");
    CAIRN_CHECK(tensor.offset <= n_file && tensor.n_bytes <= n_file - tensor.offset, "inside");
    end = tensor.offset + tensor.n_bytes;
  }
}

// Every value is asked for as every type: the answers do not matter, staying inside does.
void read_metadata(const cairn::GgufMetadata& metadata) {
  constexpr uint64_t kMaxCount = 1 << 16;
  for (const cairn::GgufEntry& entry : metadata.entries()) {
    CAIRN_CHECK(metadata.find(entry.key) == &entry.value, "found under its key");
    static_cast<void>(cairn::describe(entry.value, 16));
    static_cast<void>(metadata.find_int(entry.key, INT64_MIN, INT64_MAX).is_ok());
    static_cast<void>(metadata.find_number(entry.key, -1e300, 1e300).is_ok());
    static_cast<void>(metadata.find_bool(entry.key).is_ok());
    static_cast<void>(metadata.find_string(entry.key).is_ok());
    static_cast<void>(metadata.find_strings(entry.key, kMaxCount).is_ok());
    static_cast<void>(metadata.find_numbers(entry.key, kMaxCount).is_ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto layout = cairn::parse_gguf({reinterpret_cast<const std::byte*>(data), size});
  if (!layout.is_ok()) {
    CAIRN_CHECK(!layout.status().message().empty(), "errors say something");
    return 0;
  }
  check_layout(*layout, size);
  read_metadata(layout->metadata);
  return 0;
}
