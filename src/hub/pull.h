// A model from a hub into its folder: the list of files, the choice among them, what is missing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/hub_settings.h"
#include "hub/model_name.h"
#include "hub/pull_observer.h"

namespace cairn {

struct FileOutcome {
  std::string name;
  uint64_t size_bytes = 0;
  std::string content;  // ContentId::text(); empty: the hub told none, so only the size was checked
  bool was_fetched = false;  // false: it was here already
};

struct PullReport {
  std::string folder;
  std::string path;      // what a loader opens: the folder, or the chosen GGUF file in it
  std::string commit;    // empty: the hub did not tell
  uint64_t n_bytes = 0;  // of all files
  uint64_t n_received = 0;
  std::vector<FileOutcome> files;
  std::vector<std::string> removed;  // of an earlier pull, gone from the hub, unchanged since
};

// Fetches what is missing or has changed into places.folder_of(name), each file in one step, and
// keeps a record of it (pull_record.h). One pull at a time works on a folder. What a pull that was
// cut off has fetched is used by the next one. Other files in the folder are left alone.
// Errors: kOverloaded (another process pulls the same model), kNotFound, kInvalidArgument (several
// models to choose from), kNoSpace (told before anything is fetched, where sizes are known),
// kCorruption (the hub sends what it did not promise), kIo, kCancelled.
Result<PullReport> pull_model(const ModelName& name,
                              const HubSettings& settings,
                              const ModelPlaces& places,
                              PullObserver& observer);

}  // namespace cairn
