// Models from one file format and element type to another.
//
// Every weight is decoded to its exact f32 value and written as the nearest value of the new type;
// where the types are equal the bytes are copied. Rows are handled one at a time, so memory is that
// of a row. Thread: any. Families: Llama, Mistral, Qwen2, Qwen3.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/checkpoint.h"
#include "tensor/dtype.h"

namespace cairn {

struct ConvertOptions {
  // Of the matrices. For GGUF any type that quantize_row writes; for safetensors f32, f16, bf16.
  // Norms and biases stay f32 in GGUF files.
  DType dtype = DType::kBf16;
  // Every matrix the one type. Otherwise, as in published files, types below 6 bits keep the output
  // matrix (or the tied embedding) at q6_k, q4_k and q5_k also half of the value and down
  // projections, and q3_k and q2_k all of those and the attention's output at one bit more. Rows
  // that are no whole number of blocks take a type that fits in either case.
  bool pure = false;
  // Called now and then with a share in [0, 1] and what is being done; may be empty.
  std::function<void(double, std::string_view)> progress;
};

struct ConvertSummary {
  std::map<std::string, uint64_t> n_tensors;  // by element type written
  uint64_t n_bytes = 0;                       // of tensors
  std::vector<std::string> notes;             // what could not be carried over
};

// One GGUF file with the model's configuration, and its tokenizer where GGUF has a place for it.
// Errors: those of load_model_config, kUnsupported (family, element type, a tensor without a name
// in GGUF), kIo, kNoSpace.
Result<ConvertSummary> convert_to_gguf(const Checkpoint& from,
                                       const std::string& path,
                                       const ConvertOptions& options);

// A folder with config.json, model.safetensors and the files about text: those of a source that is
// a folder itself, else what a GGUF file says, as tokenizer.json, tokenizer_config.json,
// generation_config.json and chat_template.jinja. Errors: as above; kInvalidArgument for a folder
// that is the source's own.
Result<ConvertSummary> convert_to_safetensors(const Checkpoint& from,
                                              const std::string& folder,
                                              const ConvertOptions& options);

}  // namespace cairn
