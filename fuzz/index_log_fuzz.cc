// Index logs from any bytes: never a crash, and what was read, written anew, reads the same.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/coding.h"
#include "base/hash.h"
#include "store/index_log.h"

namespace {

using namespace cairn;

void append(std::vector<std::byte>* out, std::span<const std::byte> bytes) {
  out->insert(out->end(), bytes.begin(), bytes.end());
}

// Cuts the input into bodies (u16 length, modulo 4096, then the bytes) and seals each, so that the
// bodies' own checks are reached; every eighth seal is left wrong.
std::vector<std::byte> seal_bodies(std::span<const std::byte> input) {
  std::vector<std::byte> log = encode_index_header();
  for (size_t n_records = 0; input.size() > 2; ++n_records) {
    size_t n = load_le<uint16_t>(input.data()) % 4096U;
    input = input.subspan(2);
    n = n < input.size() ? n : input.size();
    const size_t begin = log.size();
    append(&log, as_bytes("CREC"));
    log.resize(begin + kRecordHeaderBytes);
    store_le<uint32_t>(log.data() + begin + 12, static_cast<uint32_t>(n));
    append(&log, input.first(n));
    if (n_records % 8 != 7) {
      store_le<uint64_t>(log.data() + begin + 4, xxh3_64(std::span(log).subspan(begin + 12)));
    }
    input = input.subspan(n);
  }
  return log;
}

void check(std::span<const std::byte> bytes) {
  // Nothing that was not sealed with the key is believed.
  static const StoreKey kKey{Digest{}};
  CAIRN_CHECK(scan_index_log(bytes, &kKey).objects.empty());
  const IndexScan scan = scan_index_log(bytes);
  CAIRN_CHECK(scan.good_bytes <= bytes.size());
  CAIRN_CHECK(scan.has_header || scan.objects.empty());
  std::vector<std::byte> log = encode_index_header();
  bool is_marked = false;
  for (const IndexedObject& object : scan.objects) {
    CAIRN_CHECK(!is_marked || !object.is_synced, "durable objects come first");
    if (!object.is_synced && !is_marked) {
      append(&log, encode_synced_record());
      is_marked = true;
    }
    append(&log, encode_add_record(object.entry));
  }
  const IndexScan again = scan_index_log(log);
  CAIRN_CHECK(again.n_bad_records == 0 && !again.has_torn_tail);
  CAIRN_CHECK(again.objects.size() == scan.objects.size());
  for (size_t i = 0; i < again.objects.size(); ++i) {
    CAIRN_CHECK(encode_add_record(again.objects[i].entry) ==
                encode_add_record(scan.objects[i].entry));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  check(input);
  check(seal_bodies(input));
  return 0;
}
