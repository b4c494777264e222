#include "store/index_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/coding.h"
#include "base/log.h"
#include "store/object_format.h"

namespace cairn {
namespace {

constexpr std::string_view kIndexMagic = "CAIRNIDX";
constexpr std::string_view kRecordMark = "CREC";
constexpr size_t kHashOffset = 4;
constexpr size_t kLengthOffset = 12;  // the hash covers everything from here on

enum RecordType : uint8_t { kAdd = 1, kRemove = 2, kUse = 3, kSynced = 4, kSealed = 5 };

std::vector<std::byte> frame_record(ByteWriter body) {
  const std::vector<std::byte> bytes = body.take();
  CAIRN_CHECK(bytes.size() <= kMaxRecordBytes, "an index record is larger than any reader accepts");
  ByteWriter record;
  record.mutable_view().reserve(kRecordHeaderBytes + bytes.size());
  record.bytes(as_bytes(kRecordMark));
  record.u64(0);
  record.u32(static_cast<uint32_t>(bytes.size()));
  record.bytes(bytes);
  const std::span<const std::byte> hashed = std::span(record.view()).subspan(kLengthOffset);
  store_le<uint64_t>(record.mutable_view().data() + kHashOffset, xxh3_64(hashed));
  return record.take();
}

// The body of the record at the front of `bytes`, or nullopt when there is no whole, undamaged one.
std::optional<std::span<const std::byte>> record_at(std::span<const std::byte> bytes) {
  if (bytes.size() < kRecordHeaderBytes) return std::nullopt;
  if (!std::equal(kRecordMark.begin(), kRecordMark.end(), bytes.begin(), [](char c, std::byte b) {
        return static_cast<std::byte>(c) == b;
      })) {
    return std::nullopt;
  }
  const auto length = load_le<uint32_t>(&bytes[kLengthOffset]);
  if (length > kMaxRecordBytes || length > bytes.size() - kRecordHeaderBytes) return std::nullopt;
  const auto hashed = bytes.subspan(kLengthOffset, size_t{4} + length);
  if (xxh3_64(hashed) != load_le<uint64_t>(&bytes[kHashOffset])) return std::nullopt;
  return bytes.subspan(kRecordHeaderBytes, length);
}

// Where the next good record begins at or behind `offset`; bytes.size() when there is none.
size_t find_record(std::span<const std::byte> bytes, size_t offset) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (true) {
    offset = text.find(kRecordMark, offset);
    if (offset == std::string_view::npos) return bytes.size();
    if (record_at(bytes.subspan(offset))) return offset;
    ++offset;
  }
}

// Random nonces: below 2^32 records under one key they do not meet.
std::vector<std::byte> seal_record(std::span<const std::byte> plain, Aes256Gcm& cipher) {
  SealNonce nonce;
  random_bytes(nonce);
  std::vector<std::byte> sealed(plain.size());
  const SealTag tag = cipher.seal(nonce, {}, plain, sealed.data());
  ByteWriter body;
  body.u8(kSealed);
  body.bytes(nonce);
  body.bytes(sealed);
  body.bytes(tag);
  return frame_record(std::move(body));
}

// The body that was sealed, or nullopt when this is none or not of this key.
std::optional<std::vector<std::byte>> open_record(std::span<const std::byte> body,
                                                  Aes256Gcm& cipher) {
  if (body.size() < kRecordSealBytes || body[0] != std::byte{kSealed}) return std::nullopt;
  SealNonce nonce;
  SealTag tag;
  std::copy_n(body.begin() + 1, nonce.size(), nonce.begin());
  std::copy_n(body.end() - sizeof(tag), tag.size(), tag.begin());
  const auto sealed = body.subspan(1 + sizeof(nonce), body.size() - kRecordSealBytes);
  std::vector<std::byte> plain(sealed.size());
  if (!cipher.open(nonce, {}, sealed, tag, plain.data())) return std::nullopt;
  return plain;
}

Result<ObjectEntry> read_add(ByteReader& reader) {
  ObjectEntry entry;
  CAIRN_ASSIGN_OR_RETURN(const uint8_t kind, reader.u8("kind"));
  const std::optional<ObjectKind> known = object_kind(kind);
  if (!known) return Status::unsupported(fmt::format("object kind {}", kind));
  entry.kind = *known;
  CAIRN_ASSIGN_OR_RETURN(entry.root, read_digest(reader, "root key"));
  CAIRN_ASSIGN_OR_RETURN(entry.parent, read_digest(reader, "parent key"));
  CAIRN_ASSIGN_OR_RETURN(entry.file_bytes, reader.u64("file size"));
  CAIRN_ASSIGN_OR_RETURN(entry.last_use_unix, reader.i64("time"));
  CAIRN_ASSIGN_OR_RETURN(const uint32_t n_pages, reader.u32("page count"));
  if (n_pages < 1 || n_pages > kMaxRunPages) {
    return Status::corruption(fmt::format("{} pages, possible are 1 to {}", n_pages, kMaxRunPages));
  }
  for (uint32_t p = 0; p < n_pages; ++p) {
    PageRecord page;
    CAIRN_ASSIGN_OR_RETURN(page.key, read_digest(reader, "page key"));
    CAIRN_ASSIGN_OR_RETURN(const uint32_t n_tokens, reader.u32("token count"));
    CAIRN_ASSIGN_OR_RETURN(const std::span<const std::byte> raw,
                           reader.bytes(uint64_t{n_tokens} * 4, "token ids"));
    if (n_tokens < 1 || n_tokens > kMaxObjectPageTokens) {
      return Status::corruption(
          fmt::format("{} tokens in a page, possible are 1 to {}", n_tokens, kMaxObjectPageTokens));
    }
    page.tokens.reserve(n_tokens);
    for (size_t i = 0; i < n_tokens; ++i) page.tokens.push_back(load_le<uint32_t>(&raw[i * 4]));
    entry.pages.push_back(std::move(page));
  }
  return entry;
}

// Applies records one after another.
class IndexBuilder {
 public:
  // Errors: kCorruption or kUnsupported; then the record changed nothing.
  Status apply(std::span<const std::byte> body) {
    ByteReader reader(body);
    CAIRN_ASSIGN_OR_RETURN(const uint8_t type, reader.u8("record type"));
    switch (type) {
      case kAdd:
        return add(reader);
      case kRemove:
        return remove(reader);
      case kUse:
        return use(reader);
      case kSynced:
        CAIRN_RETURN_IF_ERROR(ended(reader));
        n_synced_ = objects_.size();
        return Status::ok();
      default:
        return Status::unsupported(fmt::format("record type {}", type));
    }
  }

  std::vector<IndexedObject> take() {
    std::vector<IndexedObject> out;
    out.reserve(by_key_.size());
    for (size_t i = 0; i < objects_.size(); ++i) {
      if (objects_[i]) out.push_back({std::move(*objects_[i]), i < n_synced_});
    }
    return out;
  }

 private:
  static Status ended(const ByteReader& reader) {
    if (reader.remaining() == 0) return Status::ok();
    return Status::corruption(fmt::format("{} bytes too many", reader.remaining()));
  }

  Status add(ByteReader& reader) {
    CAIRN_ASSIGN_OR_RETURN(ObjectEntry entry, read_add(reader));
    CAIRN_RETURN_IF_ERROR(ended(reader));
    const auto [it, is_new] = by_key_.try_emplace(entry.key(), objects_.size());
    if (!is_new) {
      objects_[it->second].reset();
      it->second = objects_.size();
    }
    objects_.push_back(std::move(entry));
    return Status::ok();
  }

  Status remove(ByteReader& reader) {
    CAIRN_ASSIGN_OR_RETURN(const PageKey key, read_digest(reader, "key"));
    CAIRN_RETURN_IF_ERROR(ended(reader));
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) return Status::ok();
    objects_[it->second].reset();
    by_key_.erase(it);
    return Status::ok();
  }

  Status use(ByteReader& reader) {
    CAIRN_ASSIGN_OR_RETURN(const int64_t unix_seconds, reader.i64("time"));
    CAIRN_ASSIGN_OR_RETURN(const uint32_t n_keys, reader.u32("key count"));
    if (reader.remaining() != uint64_t{n_keys} * 32) {
      return Status::corruption(fmt::format("{} keys in {} bytes", n_keys, reader.remaining()));
    }
    for (uint32_t i = 0; i < n_keys; ++i) {
      CAIRN_ASSIGN_OR_RETURN(const PageKey key, read_digest(reader, "key"));
      const auto it = by_key_.find(key);
      if (it == by_key_.end()) continue;
      int64_t& last_use = objects_[it->second]->last_use_unix;
      last_use = std::max(last_use, unix_seconds);
    }
    return Status::ok();
  }

  std::vector<std::optional<ObjectEntry>> objects_;
  std::unordered_map<PageKey, size_t, DigestHash> by_key_;
  size_t n_synced_ = 0;  // objects_[0, n_synced_) are durable
};

}  // namespace

std::vector<std::byte> encode_index_header() {
  ByteWriter out;
  out.bytes(as_bytes(kIndexMagic));
  out.u32(kIndexLogVersion);
  out.u32(0);
  out.u64(xxh3_64(out.view()));
  return out.take();
}

std::vector<std::byte> encode_add_record(const ObjectEntry& entry) {
  ByteWriter body;
  body.u8(kAdd);
  body.u8(static_cast<uint8_t>(entry.kind));
  body.bytes(entry.root.bytes);
  body.bytes(entry.parent.bytes);
  body.u64(entry.file_bytes);
  body.i64(entry.last_use_unix);
  body.u32(static_cast<uint32_t>(entry.pages.size()));
  for (const PageRecord& page : entry.pages) {
    body.bytes(page.key.bytes);
    body.u32(static_cast<uint32_t>(page.tokens.size()));
    for (const TokenId id : page.tokens) body.u32(id);
  }
  return frame_record(std::move(body));
}

std::vector<std::byte> encode_remove_record(const PageKey& key) {
  ByteWriter body;
  body.u8(kRemove);
  body.bytes(key.bytes);
  return frame_record(std::move(body));
}

std::vector<std::byte> encode_use_record(std::span<const PageKey> keys, int64_t unix_seconds) {
  CAIRN_CHECK(keys.size() <= kMaxKeysPerUse);
  ByteWriter body;
  body.u8(kUse);
  body.i64(unix_seconds);
  body.u32(static_cast<uint32_t>(keys.size()));
  for (const PageKey& key : keys) body.bytes(key.bytes);
  return frame_record(std::move(body));
}

std::vector<std::byte> encode_synced_record() {
  ByteWriter body;
  body.u8(kSynced);
  return frame_record(std::move(body));
}

IndexScan scan_index_log(std::span<const std::byte> bytes, const StoreKey* key) {
  IndexScan scan;
  const std::vector<std::byte> want = encode_index_header();
  const std::span<const std::byte> header = bytes.first(std::min(bytes.size(), kIndexHeaderBytes));
  if (!std::equal(header.begin(), header.end(), want.begin(), want.end())) {
    const bool is_index =
        header.size() == kIndexHeaderBytes &&
        std::equal(want.begin(), want.begin() + kIndexMagic.size(), header.begin()) &&
        xxh3_64(header.first(16)) == load_le<uint64_t>(&header[16]);
    if (is_index) scan.unknown_version = load_le<uint32_t>(&header[8]);
    return scan;
  }
  scan.has_header = true;
  IndexBuilder builder;
  std::optional<Aes256Gcm> cipher;
  if (key != nullptr) cipher.emplace(key->log_cipher());
  size_t offset = kIndexHeaderBytes;
  scan.good_bytes = offset;
  while (offset < bytes.size()) {
    const auto body = record_at(bytes.subspan(offset));
    if (!body) {
      const size_t next = find_record(bytes, offset + 1);
      if (next == bytes.size()) break;
      ++scan.n_bad_records;
      offset = next;
      continue;
    }
    std::optional<std::vector<std::byte>> opened;
    if (cipher) opened = open_record(*body, *cipher);
    const bool is_readable = !cipher || opened.has_value();
    if (is_readable && builder.apply(opened ? std::span(std::as_const(*opened)) : *body).is_ok()) {
      ++scan.n_records;
    } else {
      ++scan.n_bad_records;
    }
    offset += kRecordHeaderBytes + body->size();
    scan.good_bytes = offset;
  }
  scan.has_torn_tail = scan.good_bytes < bytes.size();
  scan.objects = builder.take();
  return scan;
}

Result<std::unique_ptr<IndexLog>> IndexLog::open(FileSystem& fs,
                                                 const std::string& path,
                                                 const StoreKey* key) {
  std::unique_ptr<IndexLog> log(new IndexLog(fs, path, key));
  CAIRN_RETURN_IF_ERROR(log->reopen());
  return log;
}

std::vector<std::byte> IndexLog::sealed(std::span<const std::byte> records) {
  std::vector<std::byte> out;
  while (!records.empty()) {
    const auto body = record_at(records);
    CAIRN_CHECK(body.has_value(), "a record that was just made cannot be read");
    const std::vector<std::byte> record = seal_record(*body, *cipher_);
    out.insert(out.end(), record.begin(), record.end());
    records = records.subspan(kRecordHeaderBytes + body->size());
  }
  return out;
}

Status IndexLog::reopen() {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs_.open(path_, {.mode = FileMode::kAppend}));
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, file->stat());
  file_ = std::move(file);
  size_bytes_ = stat.size_bytes;
  if (size_bytes_ == 0) return append_bytes(encode_index_header());
  return Status::ok();
}

Status IndexLog::append(std::span<const std::byte> record) {
  return cipher_ ? append_bytes(sealed(record)) : append_bytes(record);
}

Status IndexLog::append_bytes(std::span<const std::byte> record) {
  const Status status = file_->append(record);
  if (status.is_ok()) {
    size_bytes_ += record.size();
    return status;
  }
  const Status cut = file_->truncate(size_bytes_);
  if (!cut.is_ok()) {
    log_warning("{}: half a record could not be cut off ({}); the next start skips it",
                path_,
                cut.to_string());
    const auto stat = file_->stat();
    if (stat.is_ok()) size_bytes_ = stat->size_bytes;
  }
  return status;
}

Status IndexLog::sync() {
  return file_->sync();
}

Status IndexLog::replace(std::span<const std::byte> records) {
  std::vector<std::byte> bytes = encode_index_header();
  if (cipher_) {
    const std::vector<std::byte> own = sealed(records);
    bytes.insert(bytes.end(), own.begin(), own.end());
  } else {
    bytes.insert(bytes.end(), records.begin(), records.end());
  }
  CAIRN_RETURN_IF_ERROR(write_file_atomically(fs_, path_, bytes));
  return reopen();
}

}  // namespace cairn
