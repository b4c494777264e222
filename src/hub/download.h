// One file from a hub onto the disk: resumed, retried, bounded, checked.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "hub/http_client.h"
#include "hub/hub_settings.h"
#include "hub/listing.h"
#include "hub/pull_observer.h"

namespace cairn {

// Most bytes that are taken of a file whose size nobody tells.
inline constexpr uint64_t kUnsizedBytesMax = uint64_t{64} << 20;

struct DownloadTask {
  RepoFile file;     // what the hub's list promised
  std::string url;   // where it is
  std::string path;  // where it goes; its folder is there
  std::string what;  // for messages: "org/repo: model.safetensors"
};

struct Downloaded {
  uint64_t size_bytes = 0;
  uint64_t n_received = 0;  // less than size_bytes when an earlier part was used
  ContentId content;        // unknown when the hub told none: then only the size was checked
};

// Errors: kCorruption (other bytes, another size or more than promised: nothing of it is kept),
// kNotFound, kIo, kNoSpace, kCancelled (the part stays for the next time).
Result<Downloaded> download(HttpClient& client,
                            const HubSettings& settings,
                            const DownloadTask& task,
                            PullObserver& observer);

// A small answer as text, with the same patience. Errors: kCorruption past `max_bytes`.
Result<std::string> fetch_text(HttpClient& client,
                               const HubSettings& settings,
                               const std::string& url,
                               const std::string& what,
                               size_t max_bytes,
                               PullObserver& observer);

}  // namespace cairn
