// Any bytes as a safetensors file or as a shard index: refused, or a layout that holds what it
// says.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "formats/checkpoint.h"
#include "formats/safetensors.h"

namespace {

void check_layout(const cairn::SafetensorsLayout& layout, uint64_t n_file) {
  uint64_t end = 0;
  for (const cairn::TensorInfo& tensor : layout.tensors) {
    const auto n_bytes = cairn::tensor_bytes(tensor.dtype, tensor.shape);
    CAIRN_CHECK(n_bytes.is_ok() && *n_bytes == tensor.n_bytes, "shape and size agree");
    CAIRN_CHECK(tensor.offset <= n_file && tensor.n_bytes <= n_file - tensor.offset, "inside");
    CAIRN_CHECK(end == 0 || tensor.offset == end, "no gap, no overlap");
    end = tensor.offset + tensor.n_bytes;
  }
  CAIRN_CHECK(end == 0 || end == n_file, "the tensors fill the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto layout = cairn::parse_safetensors({bytes, size});
  if (layout.is_ok()) {
    check_layout(*layout, size);
  } else {
    CAIRN_CHECK(!layout.status().message().empty(), "errors say something");
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = cairn::parse_safetensors_index(text);
  if (index.is_ok()) {
    for (const auto& [name, shard] : *index) {
      CAIRN_CHECK(shard.find('/') == std::string::npos && shard != "..", "a plain file name");
    }
  }
  return 0;
}
