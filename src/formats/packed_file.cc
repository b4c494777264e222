#include "formats/packed_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/coding.h"
#include "base/kernel_pool.h"
#include "base/mapping.h"
#include "formats/output_file.h"

namespace cairn {
namespace {

constexpr std::string_view kMagic = "CAIRNPKW";
constexpr uint32_t kPackedVersion = 1;
constexpr uint64_t kBlobAlignment = 4096;
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
constexpr uint32_t kMaxBlobs = 1 << 20;
constexpr size_t kFixedBytes = 8 + 4 + 4 + 8 + sizeof(Digest::bytes);
constexpr size_t kHashBytes = 8;

uint64_t aligned(uint64_t n) {
  return (n + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment;
}

// Blobs are hashed in pieces, so that threads share the work on a big one.
std::vector<std::span<const std::byte>> cut_pieces(
    std::span<const std::span<const std::byte>> blobs) {
  std::vector<std::span<const std::byte>> pieces;
  for (const std::span<const std::byte> blob : blobs) {
    for (size_t at = 0; at < blob.size(); at += kPieceBytes) {
      pieces.push_back(blob.subspan(at, std::min<size_t>(kPieceBytes, blob.size() - at)));
    }
  }
  return pieces;
}

std::vector<uint64_t> hash_pieces(std::span<const std::span<const std::byte>> pieces,
                                  unsigned n_threads) {
  std::vector<uint64_t> hashes(pieces.size());
  KernelPool pool(n_threads);
  pool.run(pieces.size(), [&](size_t i) { hashes[i] = xxh3_64(pieces[i]); });
  return hashes;
}

std::vector<std::byte> make_header(const Digest& key,
                                   std::span<const std::span<const std::byte>> blobs,
                                   std::span<const uint64_t> hashes) {
  const uint64_t n_header =
      aligned(kFixedBytes + 8 * blobs.size() + kHashBytes * hashes.size() + kHashBytes);
  uint64_t n_file = n_header;
  for (const std::span<const std::byte> blob : blobs) n_file += aligned(blob.size());
  ByteWriter header;
  header.bytes(as_bytes(kMagic));
  header.u32(kPackedVersion);
  header.u32(static_cast<uint32_t>(blobs.size()));
  header.u64(n_file);
  header.bytes(key.bytes);
  for (const std::span<const std::byte> blob : blobs) header.u64(blob.size());
  for (const uint64_t hash : hashes) header.u64(hash);
  header.u64(xxh3_64(header.view()));
  header.zeros(n_header - header.size());
  return header.take();
}

// What the fixed part says, and where the rest of the header is.
struct Header {
  std::vector<std::span<const std::byte>> blobs;
  std::span<const std::byte> hashes;
};

Status check_fixed_part(std::span<const std::byte> file, const Digest& key) {
  if (file.size() < kFixedBytes || !std::ranges::equal(file.first(8), as_bytes(kMagic))) {
    return Status::corruption("no file of packed weights");
  }
  const auto version = load_le<uint32_t>(file.data() + 8);
  if (version != kPackedVersion) {
    return Status::unsupported(fmt::format(
        "version {} of packed weights; this program reads {}", version, kPackedVersion));
  }
  if (!std::ranges::equal(file.subspan(24, key.bytes.size()), key.bytes)) {
    return Status::corruption("the packed weights of another model");
  }
  const auto n_said = load_le<uint64_t>(file.data() + 16);
  if (n_said != file.size()) {
    return Status::corruption(fmt::format("{} bytes of {}", file.size(), n_said));
  }
  return Status::ok();
}

Result<Header> read_header(std::span<const std::byte> file, const Digest& key) {
  CAIRN_RETURN_IF_ERROR(check_fixed_part(file, key));
  const uint64_t n_blobs = load_le<uint32_t>(file.data() + 12);
  if (n_blobs > kMaxBlobs || n_blobs > (file.size() - kFixedBytes) / 8) {
    return Status::corruption(fmt::format("{} blobs do not fit", n_blobs));
  }
  uint64_t n_pieces = 0;
  std::vector<uint64_t> sizes(n_blobs);
  for (size_t i = 0; i < n_blobs; ++i) {
    sizes[i] = load_le<uint64_t>(file.data() + kFixedBytes + 8 * i);
    if (sizes[i] > file.size()) return Status::corruption("a blob is larger than the file");
    n_pieces += (sizes[i] + kPieceBytes - 1) / kPieceBytes;
  }
  // Each term is bounded by the file's size and by kMaxBlobs, so nothing overflows.
  const uint64_t n_tables = kFixedBytes + 8 * n_blobs + kHashBytes * n_pieces;
  uint64_t at = aligned(n_tables + kHashBytes);
  if (at > file.size()) return Status::corruption("the header does not fit");
  if (xxh3_64(file.first(n_tables)) != load_le<uint64_t>(file.data() + n_tables)) {
    return Status::corruption("the header's hash is wrong");
  }
  Header header;
  header.hashes = file.subspan(kFixedBytes + 8 * n_blobs, kHashBytes * n_pieces);
  for (const uint64_t size : sizes) {
    if (aligned(size) > file.size() - at) return Status::corruption("the blobs do not fit");
    header.blobs.push_back(file.subspan(at, size));
    at += aligned(size);
  }
  if (at != file.size()) return Status::corruption("bytes after the last blob");
  return header;
}

}  // namespace

Result<std::vector<std::span<const std::byte>>> parse_packed_file(std::span<const std::byte> file,
                                                                  const Digest& key,
                                                                  unsigned n_threads) {
  CAIRN_ASSIGN_OR_RETURN(Header header, read_header(file, key));
  const auto pieces = cut_pieces(header.blobs);
  const std::vector<uint64_t> hashes = hash_pieces(pieces, n_threads);
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (hashes[i] == load_le<uint64_t>(header.hashes.data() + kHashBytes * i)) continue;
    return Status::corruption(fmt::format("the hash of the {} bytes at {} is wrong",
                                          pieces[i].size(),
                                          static_cast<size_t>(pieces[i].data() - file.data())));
  }
  return std::move(header.blobs);
}

Result<PackedFile> PackedFile::open(const std::string& path,
                                    const Digest& key,
                                    unsigned n_threads) {
  CAIRN_ASSIGN_OR_RETURN(Mapping mapping, Mapping::open(path));
  const auto owner = std::make_shared<const Mapping>(std::move(mapping));
  auto blobs = parse_packed_file(owner->bytes(), key, n_threads);
  if (!blobs.is_ok()) return blobs.status().with_prefix(path);
  PackedFile file;
  for (const std::span<const std::byte> blob : *blobs) file.blobs_.push_back({blob, owner});
  return file;
}

Status write_packed_file(const std::string& path,
                         const Digest& key,
                         std::span<const std::span<const std::byte>> blobs,
                         unsigned n_threads) {
  if (blobs.size() > kMaxBlobs) {
    return Status::invalid_argument(
        fmt::format("{} packed matrices; at most {}", blobs.size(), kMaxBlobs));
  }
  const std::vector<uint64_t> hashes = hash_pieces(cut_pieces(blobs), n_threads);
  CAIRN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  CAIRN_RETURN_IF_ERROR(file.write(make_header(key, blobs, hashes)));
  const std::vector<std::byte> padding(kBlobAlignment);
  for (const std::span<const std::byte> blob : blobs) {
    CAIRN_RETURN_IF_ERROR(file.write(blob));
    CAIRN_RETURN_IF_ERROR(file.write(std::span(padding).first(aligned(blob.size()) - blob.size())));
  }
  return file.finish_unsynced();
}

}  // namespace cairn
