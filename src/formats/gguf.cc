#include "formats/gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/coding.h"
#include "formats/gguf_types.h"

namespace cairn {
namespace {

// Names are copied several times over; published ones have 64 bytes at most.
constexpr uint64_t kMaxKeyBytes = 256;
constexpr uint64_t kMaxNameBytes = 256;
constexpr uint32_t kMaxType = static_cast<uint32_t>(GgufType::kF64);
constexpr int kMaxNesting = 4;  // arrays inside arrays
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = 1 << 20;
// The least bytes that a table entry takes, so that a count is refused before anything is reserved.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

class Parser {
 public:
  explicit Parser(std::span<const std::byte> file) : file_(file), reader_(file) {}

  Result<GgufLayout> run() {
    GgufLayout layout;
    CAIRN_ASSIGN_OR_RETURN(layout.version, read_version());
    CAIRN_ASSIGN_OR_RETURN(const uint64_t n_tensors,
                           read_count("tensor count", kGgufMaxTensors, kMinTensorBytes));
    CAIRN_ASSIGN_OR_RETURN(const uint64_t n_entries,
                           read_count("metadata count", kGgufMaxEntries, kMinEntryBytes));
    std::vector<GgufEntry> entries;
    for (uint64_t i = 0; i < n_entries; ++i) {
      CAIRN_ASSIGN_OR_RETURN(GgufEntry entry, read_entry());
      entries.push_back(std::move(entry));
    }
    CAIRN_ASSIGN_OR_RETURN(layout.metadata, GgufMetadata::create(std::move(entries)));
    CAIRN_ASSIGN_OR_RETURN(layout.alignment, find_alignment(layout.metadata));
    for (uint64_t i = 0; i < n_tensors; ++i) {
      CAIRN_ASSIGN_OR_RETURN(TensorInfo tensor, read_tensor(layout.alignment));
      layout.tensors.push_back(std::move(tensor));
    }
    CAIRN_RETURN_IF_ERROR(place(layout.alignment, &layout.tensors));
    return layout;
  }

 private:
  Result<uint32_t> read_version() {
    CAIRN_ASSIGN_OR_RETURN(const uint32_t magic, reader_.u32("magic"));
    if (magic != kGgufMagic) {
      return Status::corruption("the file does not begin with \"GGUF\": this is no GGUF file");
    }
    CAIRN_ASSIGN_OR_RETURN(const uint32_t version, reader_.u32("version"));
    if (version == 2 || version == 3) return version;
    // A small number with its bytes the other way round.
    if (version != 0 && (version & 0xffffU) == 0) {
      return Status::unsupported(
          "a big-endian GGUF file; this version reads little-endian ones: convert the model again "
          "without --bigendian");
    }
    return Status::unsupported(fmt::format(
        "GGUF version {}; this version reads 2 and 3: convert the model again with a newer tool",
        version));
  }

  Result<uint64_t> read_count(std::string_view what, uint64_t max, uint64_t min_bytes_each) {
    CAIRN_ASSIGN_OR_RETURN(const uint64_t count, reader_.u64(what));
    if (count <= max && count <= reader_.remaining() / min_bytes_each) return count;
    return Status::corruption(fmt::format("{} {}; at most {} are read, and {} bytes are left",
                                          what,
                                          count,
                                          max,
                                          reader_.remaining()));
  }

  // A view of the file; the length is checked by the reader.
  Result<std::string_view> read_string(std::string_view what, uint64_t max) {
    CAIRN_ASSIGN_OR_RETURN(const uint64_t n, reader_.u64(what));
    if (n > max) {
      return Status::corruption(fmt::format(
          "{}: {} bytes long at offset {}; at most {}", what, n, reader_.offset(), max));
    }
    CAIRN_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, reader_.bytes(n, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  Result<GgufType> read_type(std::string_view key) {
    CAIRN_ASSIGN_OR_RETURN(const uint32_t type, reader_.u32("value type"));
    if (type <= kMaxType) return static_cast<GgufType>(type);
    return Status::corruption(
        fmt::format("metadata {}: value type {}, at most {}", in_quotes(key), type, kMaxType));
  }

  // Moves past `count` elements, checking that they are whole.
  Status skip_elements(std::string_view key, GgufType type, uint64_t count, int depth) {
    const size_t size = gguf_type_bytes(type);
    if (size != 0) {
      uint64_t n_bytes = 0;
      if (!checked_mul(count, size, &n_bytes)) n_bytes = UINT64_MAX;
      return reader_.skip(n_bytes, "metadata value");
    }
    if (depth > kMaxNesting) {
      return Status::corruption(
          fmt::format("metadata {}: arrays nested more than {} deep", in_quotes(key), kMaxNesting));
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (type == GgufType::kString) {
        CAIRN_RETURN_IF_ERROR(read_string("metadata string", UINT64_MAX).status());
      } else {
        CAIRN_ASSIGN_OR_RETURN(const GgufType inner, read_type(key));
        CAIRN_ASSIGN_OR_RETURN(const uint64_t n, reader_.u64("array length"));
        CAIRN_RETURN_IF_ERROR(skip_elements(key, inner, n, depth + 1));
      }
    }
    return Status::ok();
  }

  Result<GgufEntry> read_entry() {
    CAIRN_ASSIGN_OR_RETURN(const std::string_view key, read_string("metadata key", kMaxKeyBytes));
    GgufEntry entry{std::string(key), {}};
    CAIRN_ASSIGN_OR_RETURN(entry.value.type, read_type(key));
    entry.value.is_array = entry.value.type == GgufType::kArray;
    if (entry.value.is_array) {
      CAIRN_ASSIGN_OR_RETURN(entry.value.type, read_type(key));
      CAIRN_ASSIGN_OR_RETURN(entry.value.count, reader_.u64("array length"));
    }
    const size_t begin = reader_.offset();
    CAIRN_RETURN_IF_ERROR(skip_elements(key, entry.value.type, entry.value.count, 1)
                              .with_prefix("metadata " + in_quotes(key)));
    entry.value.bytes = file_.subspan(begin, reader_.offset() - begin);
    return entry;
  }

  static Result<uint64_t> find_alignment(const GgufMetadata& metadata) {
    CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> value,
                           metadata.find_int("general.alignment", kMinAlignment, kMaxAlignment));
    const auto alignment = static_cast<uint64_t>(value.value_or(32));
    if (std::has_single_bit(alignment)) return alignment;
    return Status::corruption(
        fmt::format("general.alignment is {}; wanted a power of two", alignment));
  }

  Result<TensorInfo> read_tensor(uint64_t alignment) {
    CAIRN_ASSIGN_OR_RETURN(const std::string_view name, read_string("tensor name", kMaxNameBytes));
    TensorInfo tensor;
    tensor.name = name;
    const std::string where = "tensor " + in_quotes(name);
    CAIRN_ASSIGN_OR_RETURN(const uint32_t rank, reader_.u32("tensor rank"));
    if (rank == 0 || rank > kGgufMaxRank) {
      return Status::corruption(
          fmt::format("{}: {} dimensions; wanted 1 to {}", where, rank, kGgufMaxRank));
    }
    for (uint32_t i = 0; i < rank; ++i) {
      CAIRN_ASSIGN_OR_RETURN(const uint64_t dim, reader_.u64("tensor dimension"));
      if (dim == 0 || dim > static_cast<uint64_t>(INT64_MAX)) {
        return Status::corruption(fmt::format("{}: dimension {}", where, dim));
      }
      tensor.shape.push_back(static_cast<int64_t>(dim));
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    CAIRN_ASSIGN_OR_RETURN(const uint32_t type, reader_.u32("tensor type"));
    Result<DType> dtype = dtype_from_ggml(type);
    if (!dtype.is_ok()) return dtype.status().with_prefix(where);
    tensor.dtype = *dtype;
    Result<uint64_t> n_bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!n_bytes.is_ok()) return n_bytes.status().with_prefix(where);
    tensor.n_bytes = *n_bytes;
    CAIRN_ASSIGN_OR_RETURN(tensor.offset, reader_.u64("tensor offset"));
    if (tensor.offset % alignment == 0) return tensor;
    return Status::corruption(fmt::format(
        "{}: offset {} is no multiple of the alignment, {}", where, tensor.offset, alignment));
  }

  // Turns offsets into those of the file; checks that tensors lie inside it, apart from each other,
  // under names of their own.
  Status place(uint64_t alignment, std::vector<TensorInfo>* tensors) const {
    const uint64_t data_begin = (reader_.offset() + alignment - 1) / alignment * alignment;
    std::sort(tensors->begin(), tensors->end(), [](const TensorInfo& a, const TensorInfo& b) {
      return a.offset < b.offset;
    });
    uint64_t end = 0;
    for (TensorInfo& tensor : *tensors) {
      if (!checked_add(tensor.offset, data_begin, &tensor.offset) || tensor.offset < end) {
        return Status::corruption(fmt::format("tensor {} begins at {}, inside the one before it",
                                              in_quotes(tensor.name),
                                              tensor.offset));
      }
      if (!checked_add(tensor.offset, tensor.n_bytes, &end) || end > file_.size()) {
        return Status::corruption(
            fmt::format("tensor {} at {} with {} bytes runs past the file, which has {}; the file "
                        "is truncated: "
                        "copy or download it again",
                        in_quotes(tensor.name),
                        tensor.offset,
                        tensor.n_bytes,
                        file_.size()));
      }
    }
    return check_unique_names(*tensors);
  }

  std::span<const std::byte> file_;
  ByteReader reader_;
};

}  // namespace

Result<GgufLayout> parse_gguf(std::span<const std::byte> file) {
  auto layout = Parser(file).run();
  if (!layout.is_ok()) return layout.status().with_prefix("read as GGUF");
  return layout;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  GgufFile file;
  file.path_ = path;
  CAIRN_ASSIGN_OR_RETURN(file.mapping_, Mapping::open(path));
  Result<GgufLayout> layout = parse_gguf(file.mapping_.bytes());
  if (!layout.is_ok()) return layout.status().with_prefix(path);
  file.layout_ = std::move(layout).value();
  return file;
}

TensorView GgufFile::tensor_at(size_t idx) const {
  CAIRN_CHECK(idx < layout_.tensors.size(), "tensor index");
  const TensorInfo& info = layout_.tensors[idx];
  // In range: parse_gguf checked the layout against these very bytes.
  return {info.dtype, info.shape, mapping_.bytes().subspan(info.offset, info.n_bytes)};
}

}  // namespace cairn
