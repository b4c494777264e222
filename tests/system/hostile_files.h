// Model files that are made to take memory and time: each is valid as far as it can be, so that
// what is refused is its size or shape, not its spelling.
//
// Written to disk as a stream. Ours; no other source.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "system/program.h"

namespace cairn::testing {

struct HostileCase {
  std::string name;
  // Writes the case into an empty folder; about `n_bytes` in all, where the case has a size.
  std::function<void(const std::string& folder, uint64_t n_bytes)> write;
  // What `cairn` is run with; "@" stands for the folder.
  std::vector<Words> commands;
};

std::vector<HostileCase> hostile_gguf_files();
std::vector<HostileCase> hostile_tokenizers();  // tokenizer.json and SentencePiece's .model
std::vector<HostileCase> hostile_templates();   // and tokenizer_config.json
std::vector<HostileCase>
hostile_safetensors();  // and config.json, generation_config.json, the index
std::vector<HostileCase> hostile_small_templates();  // of a few bytes, whatever `n_bytes` says

}  // namespace cairn::testing
