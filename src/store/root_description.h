// root.cairn: what a root is, as JSON, so that tools can name what they see.
//
// Nothing is served from it: the root's key, which is the folder's name, already decides
// everything. Thread: any. Format: docs/formats/object.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "cache/geometry.h"
#include "cache/key.h"

namespace cairn {

inline constexpr std::string_view kRootFileName = "root.cairn";

struct RootDescription {
  RootKey key;
  RootSpec spec;
};

std::string encode_root_description(const RootSpec& spec);

// Reads <root folder>/root.cairn. Errors: kNotFound; kCorruption when it is not what it should be
// or its fields do not give the key that it names; kUnsupported for an unknown version.
Result<RootDescription> read_root_description(FileSystem& fs, const std::string& path);

}  // namespace cairn
