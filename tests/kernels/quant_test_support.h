// Quantised weights made of random bits, with the values they stand for.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "kernel_test_support.h"
#include "tensor/quant.h"

namespace cairn::kernel_test {

// A part of a weight that owns its bytes, which start one byte off any alignment.
struct QuantMatrix {
  std::string name;
  size_t n_out = 0;
  size_t n_in = 0;
  std::vector<std::byte> values, scales, biases;
  std::vector<float> dequantised;  // [n_out, n_in]
  DType dtype = DType::kU32;
  DType scale_dtype = DType::kF16;
  uint32_t bits = 0;
  uint32_t group_size = 0;

  WeightPart part() const {
    const auto view = [](DType type, size_t rows, size_t columns, const auto& bytes) {
      return TensorView{type,
                        {static_cast<int64_t>(rows), static_cast<int64_t>(columns)},
                        std::span(bytes).subspan(1)};
    };
    if (bits == 0) return {view(dtype, n_out, n_in, values), std::nullopt, {}};
    AffineGroups affine;
    affine.scales = view(scale_dtype, n_out, n_in / group_size, scales);
    affine.biases = view(scale_dtype, n_out, n_in / group_size, biases);
    affine.bits = bits;
    affine.group_size = group_size;
    return {view(DType::kU32, n_out, n_in * bits / 32, values), affine, {}};
  }

  size_t n_bytes() const {
    return values.size() - 1 + (bits == 0 ? 0 : scales.size() + biases.size() - 2);
  }
};

inline std::vector<std::byte> random_bytes(Random& random, size_t n) {
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = std::byte(random.next() >> 56);
  return out;
}

// Where the halves of a block lie: d, and m or another d.
inline std::vector<size_t> half_offsets(DType dtype) {
  switch (dtype) {
    case DType::kQ2K:
      return {80, 82};
    case DType::kQ3K:
      return {108};
    case DType::kQ6K:
      return {208};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4K:
    case DType::kQ5K:
      return {0, 2};
    case DType::kMxfp4:
      return {};
    default:
      return {0};
  }
}

// Values of about 1 at most, whatever the type.
inline QuantMatrix random_blocks(DType dtype, size_t n_out, size_t n_in, Random& random) {
  QuantMatrix m;
  m.name = to_string(dtype);
  m.dtype = dtype;
  m.n_out = n_out;
  m.n_in = n_in;
  const BlockShape shape = block_shape(dtype);
  const BlockScheme scheme = block_scheme(dtype);
  const float unit =
      1.0F / static_cast<float>((1U << (scheme.bits - 1)) * (scheme.two_level ? 32 : 1));
  m.values = random_bytes(random, 1 + n_out * n_in / shape.n_elements * shape.n_bytes);
  for (size_t at = 1; at < m.values.size(); at += shape.n_bytes) {
    for (const size_t offset : half_offsets(dtype)) {
      const F16 half = f32_to_f16(unit * (0.5F + random.value() * 0.5F));
      std::memcpy(&m.values[at + offset], &half, 2);
    }
    if (dtype == DType::kMxfp4) m.values[at] = std::byte(118 + random.next() % 8);
  }
  m.dequantised.resize(n_out * n_in);
  dequantize_row(dtype, m.values.data() + 1, n_out * n_in, m.dequantised.data());
  return m;
}

inline QuantMatrix random_affine(
    uint32_t bits, uint32_t group, DType scale_dtype, size_t n_out, size_t n_in, Random& random) {
  QuantMatrix m;
  m.name = "affine " + std::to_string(bits) + " group " + std::to_string(group) + " " +
           std::string(to_string(scale_dtype));
  m.n_out = n_out;
  m.n_in = n_in;
  m.bits = bits;
  m.group_size = group;
  m.scale_dtype = scale_dtype;
  m.values = random_bytes(random, 1 + n_out * n_in * bits / 8);
  const size_t n_groups = n_out * n_in / group;
  const auto put = [&](std::vector<std::byte>& to, float value) {
    const uint16_t half = scale_dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    const void* from = scale_dtype == DType::kF32 ? static_cast<const void*>(&value) : &half;
    const auto* bytes = static_cast<const std::byte*>(from);
    to.insert(to.end(), bytes, bytes + dtype_bytes(scale_dtype));
  };
  m.scales.resize(1);
  m.biases.resize(1);
  for (size_t g = 0; g < n_groups; ++g) {
    put(m.scales, random.value() / static_cast<float>(1U << bits));
    put(m.biases, random.value());
  }
  m.dequantised.resize(n_out * n_in);
  dequantize_affine_row({std::span(m.values).subspan(1),
                         std::span(m.scales).subspan(1),
                         std::span(m.biases).subspan(1),
                         scale_dtype,
                         bits,
                         group},
                        n_out * n_in,
                        m.dequantised.data());
  return m;
}

// Every format once: all block types, all affine widths, groups and types of scales.
inline std::vector<QuantMatrix> every_format(size_t n_out, size_t n_in, Random& random) {
  std::vector<QuantMatrix> out;
  for (const DType dtype : kBlockTypes) out.push_back(random_blocks(dtype, n_out, n_in, random));
  const DType scale_types[] = {DType::kF16, DType::kBf16, DType::kF32};
  size_t i = 0;
  for (const uint32_t bits : {2U, 3U, 4U, 5U, 6U, 8U}) {
    for (const uint32_t group : {32U, 64U, 128U}) {
      out.push_back(random_affine(bits, group, scale_types[i++ % 3], n_out, n_in, random));
    }
    ++i;  // so that widths and types do not go together
  }
  return out;
}

}  // namespace cairn::kernel_test
