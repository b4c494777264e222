// Reference logits of one oracle folder (tests/data/oracles; its README gives the tolerances), and
// comparisons with them.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "formats/safetensors.h"
#include "model/model_fixture.h"

namespace cairn::testing {

struct Prompt {
  std::string name;
  std::vector<TokenId> ids;
  std::vector<TokenId> argmax;
  std::vector<TokenId> greedy;
};

// Reference numbers of one folder.
class Reference {
 public:
  explicit Reference(const std::string& dir);

  const std::vector<Prompt>& prompts() const { return prompts_; }

  template <typename T>
  std::vector<T> values(const std::string& name) const {
    const TensorView view = file_.tensor(name).value();
    CAIRN_CHECK(dtype_bytes(view.dtype) == sizeof(T));
    std::vector<T> out(view.bytes.size() / sizeof(T));
    std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
    return out;
  }

 private:
  SafetensorsFile file_;
  std::vector<Prompt> prompts_;
};

inline constexpr size_t kOracleTop = 16;

// |a - b|.
double difference(float a, double b);

// Logits of every position of the prompt, computed in f32, against the reference.
void expect_f32(const Reference& reference,
                const Prompt& prompt,
                size_t vocab_size,
                const std::vector<float>& logits);

// The greedy continuation, id for id, and its last logits where the reference has them.
void expect_greedy(const Reference& reference,
                   const Prompt& prompt,
                   Model& model,
                   const CacheGeometry& geometry);

}  // namespace cairn::testing
