// What earlier pulls put into a model's folder: <folder>/.cairn-pull.json.
//
//   {"version": 1, "revision": "main", "commit": "<40 hex>", "pending": ["name", ...],
//    "files": {"name": {"bytes": n, "content": "sha256:<hex>", "listed": "sha256:<hex>",
//                        "commit": "<40 hex>", "mtime_ns": n}}}
//
// It saves reading whole files to know that they are the right ones, and tells a model that is only
// half here. Losing it costs that reading. Thread: one, under the folder's lock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "hub/content_id.h"

namespace cairn {

struct PulledFile {
  uint64_t size_bytes = 0;
  ContentId content;   // of the bytes; unknown: nobody told what they should be
  ContentId listed;    // what the hub's list said, which for some large files is another id
  std::string commit;  // that it was fetched at; empty: the hub did not tell
  int64_t mtime_ns = 0;
};

struct PullRecord {
  std::string revision;  // as it was asked for; empty: the main branch
  std::string commit;    // of the last pull; empty: the hub did not tell
  std::set<std::string> pending;
  std::map<std::string, PulledFile> files;

  // Whether the file that is there now is the one that was pulled, by size and time of change.
  bool is_untouched(const std::string& folder, const std::string& name) const;
};

// An empty record where there is none or it cannot be read.
PullRecord load_pull_record(const std::string& folder);
Status save_pull_record(const std::string& folder, const PullRecord& record);

}  // namespace cairn
