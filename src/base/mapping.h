// A read-only memory mapping of a whole file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace cairn {

class Mapping {
 public:
  // An empty file gives an empty span. Errors: kNotFound, kIo.
  static Result<Mapping> open(const std::string& path);

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Lets go of the resident pages that lie wholly inside `bytes`, a part of a mapping; they are read
// again (from the page cache, as a rule) when they are touched. Advice only.
void drop_resident(std::span<const std::byte> bytes);

}  // namespace cairn
