// Source of the numbers: ggml.h, enum ggml_type; llama.h, enum llama_ftype.
#include "formats/gguf_types.h"

#include <fmt/format.h>

#include <array>

namespace cairn {
namespace {

struct Readable {
  uint32_t number;
  DType dtype;
};

constexpr std::array<Readable, 21> kReadable = {
    {{0, DType::kF32},    {1, DType::kF16},    {2, DType::kQ4_0}, {3, DType::kQ4_1},
     {6, DType::kQ5_0},   {7, DType::kQ5_1},   {8, DType::kQ8_0}, {10, DType::kQ2K},
     {11, DType::kQ3K},   {12, DType::kQ4K},   {13, DType::kQ5K}, {14, DType::kQ6K},
     {20, DType::kIq4Nl}, {23, DType::kIq4Xs}, {24, DType::kI8},  {25, DType::kI16},
     {26, DType::kI32},   {27, DType::kI64},   {28, DType::kF64}, {30, DType::kBf16},
     {39, DType::kMxfp4}}};

struct Unreadable {
  uint32_t number;
  const char* name;
};

// Those marked "removed" were taken out of ggml itself.
constexpr std::array<Unreadable, 22> kUnreadable = {{{4, "Q4_2 (removed from ggml)"},
                                                     {5, "Q4_3 (removed from ggml)"},
                                                     {9, "Q8_1"},
                                                     {15, "Q8_K"},
                                                     {16, "IQ2_XXS"},
                                                     {17, "IQ2_XS"},
                                                     {18, "IQ3_XXS"},
                                                     {19, "IQ1_S"},
                                                     {21, "IQ3_S"},
                                                     {22, "IQ2_S"},
                                                     {29, "IQ1_M"},
                                                     {31, "Q4_0_4_4 (removed from ggml)"},
                                                     {32, "Q4_0_4_8 (removed from ggml)"},
                                                     {33, "Q4_0_8_8 (removed from ggml)"},
                                                     {34, "TQ1_0"},
                                                     {35, "TQ2_0"},
                                                     {36, "IQ4_NL_4_4 (removed from ggml)"},
                                                     {37, "IQ4_NL_4_8 (removed from ggml)"},
                                                     {38, "IQ4_NL_8_8 (removed from ggml)"},
                                                     {40, "NVFP4"},
                                                     {41, "Q1_0"},
                                                     {42, "Q2_0"}}};

std::string readable_names() {
  std::string text;
  for (const Readable& entry : kReadable) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(entry.dtype));
  }
  return text;
}

}  // namespace

Result<DType> dtype_from_ggml(uint32_t type) {
  for (const Readable& entry : kReadable) {
    if (entry.number == type) return entry.dtype;
  }
  std::string name = fmt::format("of number {}", type);
  for (const Unreadable& entry : kUnreadable) {
    if (entry.number == type) name = entry.name;
  }
  return Status::unsupported(
      fmt::format("ggml type {}; this version reads {}: use a file quantised to one of these",
                  name,
                  readable_names()));
}

Result<uint32_t> dtype_to_ggml(DType dtype) {
  for (const Readable& entry : kReadable) {
    if (entry.dtype == dtype) return entry.number;
  }
  return Status::unsupported(
      fmt::format("element type {}; GGUF has {}", to_string(dtype), readable_names()));
}

uint32_t ggml_file_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ4_1:
      return 3;
    case DType::kQ8_0:
      return 7;
    case DType::kQ5_0:
      return 8;
    case DType::kQ5_1:
      return 9;
    case DType::kQ2K:
      return 10;
    case DType::kQ3K:
      return 12;
    case DType::kQ4K:
      return 15;
    case DType::kQ5K:
      return 17;
    case DType::kQ6K:
      return 18;
    case DType::kIq4Nl:
      return 25;
    case DType::kIq4Xs:
      return 30;
    case DType::kBf16:
      return 32;
    case DType::kMxfp4:
      return 38;
    default:
      return 0;
  }
}

}  // namespace cairn
