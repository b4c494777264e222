// Unicode normal forms, as tokenizer files ask for them (utf8proc, Unicode 15).
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

class Normalizer {
 public:
  Normalizer() = default;

  // Applied one after another; empty changes nothing.
  explicit Normalizer(std::vector<NormalForm> forms) : forms_(std::move(forms)) {}

  const std::vector<NormalForm>& forms() const { return forms_; }

  // Requires valid UTF-8. Returns `text` itself when nothing changes (the usual case: text without
  // combining marks), else a view of `scratch`.
  std::string_view normalize(std::string_view text, std::string& scratch) const;

 private:
  std::vector<NormalForm> forms_;
};

}  // namespace cairn
