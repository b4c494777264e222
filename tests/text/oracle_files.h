// Reads golden files that live outside the tree. Their folders come from the environment:
// CAIRN_ORACLES (goldens and templates) and CAIRN_VOCABS (see tools/fetch_vocabs.sh).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/gguf.h"
#include "formats/gguf_vocabulary.h"

namespace cairn {

// The folder that the variable names, or nothing. <CAIRN_ORACLES>/text
std::optional<std::string> oracle_folder();

// Nothing too when this vocabulary has not been fetched.
std::optional<std::string> vocab_folder(const std::string& package);

// Aborts when the file is missing or damaged: a test that has its folder must find its files.
std::string read_file_or_die(const std::string& path);
Json read_json_or_die(const std::string& path);
std::string read_gz_or_die(const std::string& path);
std::vector<Json> read_jsonl_gz_or_die(const std::string& path);

// A GGUF file in memory, for its tokenizer. Aborts when it is damaged.
class GgufText {
 public:
  explicit GgufText(std::string bytes);

  const GgufVocabulary& vocabulary() const { return vocabulary_; }

 private:
  const std::string bytes_;  // that the rest points into
  GgufLayout layout_;
  GgufVocabulary vocabulary_;
};

}  // namespace cairn
