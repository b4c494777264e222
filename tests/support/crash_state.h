// Rebuilds a disk from a log of operations, as it may look after power was lost at its end.
// For RecordingFileSystem, whose header states the rules.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/memory_file_system.h"
#include "support/recording_file_system.h"

namespace cairn {

struct InitialFile {
  uint64_t inode = 0;
  bool is_directory = false;
  std::vector<std::byte> bytes;
};

using InitialDisk = std::map<std::string, InitialFile>;

// A durable copy of what `disk` holds now, with its inode numbers.
InitialDisk initial_disk(MemoryFileSystem& disk);

std::unique_ptr<MemoryFileSystem> disk_after_power_loss(const InitialDisk& initial,
                                                        std::span<const Operation> log,
                                                        CrashMode mode,
                                                        uint64_t seed);

}  // namespace cairn
