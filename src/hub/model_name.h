// What people write for a model on a hub: ORG/REPO, and which revision, quantisation or file of it.
//
//   org/repo   org/repo@revision   org/repo:Q4_K_M   org/repo@revision:Q4_K_M org/repo/x/file.gguf
//
// A revision is a branch, a tag or a commit. The parts go into addresses and folder names, so only
// the characters that hubs allow are taken.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn {

struct ModelName {
  std::string org;
  std::string repo;
  std::string revision;  // empty: the hub's main branch
  std::string quant;     // "Q4_K_M": the GGUF whose name carries it; empty: none was named
  std::string file;      // path of a GGUF file inside the repository; empty: none was named

  std::string repo_id() const { return org + "/" + repo; }

  // As it is written; parse_model_name() gives the same back.
  std::string text() const;
};

// Errors: kInvalidArgument, with the forms that are taken.
Result<ModelName> parse_model_name(std::string_view text);

// Whether `path` may be made below a model's folder: relative, no empty, "." or ".." part, no
// backslash, no control character, UTF-8, at most 240 bytes a part and 1,024 in all. `path` is
// untrusted. Errors: kCorruption, naming what is wrong.
Status check_repo_path(std::string_view path);

// Untrusted text for one line of a message: control characters replaced, at most `max_bytes` of it.
std::string printable(std::string_view text, size_t max_bytes = 200);

}  // namespace cairn
