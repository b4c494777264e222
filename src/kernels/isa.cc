#include "kernels/isa.h"

#include <cpuid.h>
#include <fmt/format.h>

namespace cairn {

namespace {

// clang 16's __builtin_cpu_supports does not know "f16c": CPUID leaf 1, ECX bit 29.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1U << 29)) != 0;
}

bool cpu_has(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      // Highway's AVX2 target also wants the last three, which every AVX2 processor has.
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
             has_f16c() && __builtin_cpu_supports("bmi2") != 0 &&
             __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("aes") != 0;
    case Isa::kAvx512:
      return cpu_has(Isa::kAvx2) && __builtin_cpu_supports("avx512f") != 0 &&
             __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
             __builtin_cpu_supports("avx512vl") != 0;
    case Isa::kAvx512Bf16:
      return cpu_has(Isa::kAvx512) && __builtin_cpu_supports("avx512bf16") != 0 &&
             __builtin_cpu_supports("avx512vnni") != 0;
  }
  return false;
}

std::string join_names(const std::vector<Isa>& isas) {
  std::string names;
  for (const Isa isa : isas)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(isa));
  return names.empty() ? "none" : names;
}

}  // namespace

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512bf16";
  }
  return "?";
}

std::string_view to_string(Precision precision) {
  return precision == Precision::kFast ? "fast" : "f32";
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (cpu_has(isa)) isas.push_back(isa);
  }
  return isas;
}

Result<Isa> parse_isa(std::string_view name) {
  const std::vector<Isa> here = supported_isas();
  if (name == "auto") {
    if (!here.empty()) return here.back();
    return Status::unsupported("this processor lacks AVX2, FMA, F16C or BMI2, which Cairn needs");
  }
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (name != to_string(isa)) continue;
    if (cpu_has(isa)) return isa;
    return Status::unsupported(
        fmt::format("instruction set {}: this processor lacks it; it has {}; use auto",
                    name,
                    join_names(here)));
  }
  return Status::invalid_argument(
      fmt::format("instruction set \"{}\": want auto, avx2, avx512 or avx512bf16", name));
}

}  // namespace cairn
