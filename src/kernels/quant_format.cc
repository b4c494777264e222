#include "kernels/quant_format.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "tensor/quant.h"

namespace cairn {

namespace {

constexpr uint32_t kLanes = kPanelRows;

uint32_t load_word(const void* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

// One plane of one lane: kBits bits from bit kShift of 32 codes on.
template <unsigned kBits, unsigned kShift>
void put_plane(const uint8_t* codes, std::byte* plane, size_t lane) {
  constexpr size_t kQuads = 8 / kBits;
  constexpr uint32_t kMask = 0x01010101U * ((1U << kBits) - 1);
  for (size_t j = 0; j < kBits; ++j) {
    uint32_t word = 0;
    for (size_t s = 0; s < kQuads; ++s) {
      word |= ((load_word(codes + 4 * (j * kQuads + s)) >> kShift) & kMask) << (s * kBits);
    }
    std::memcpy(plane + (j * kLanes + lane) * 4, &word, sizeof(word));
  }
}

template <unsigned kBits, unsigned kShift>
void get_plane(const std::byte* plane, size_t lane, uint8_t* codes) {
  constexpr size_t kQuads = 8 / kBits;
  constexpr uint32_t kMask = 0x01010101U * ((1U << kBits) - 1);
  for (size_t j = 0; j < kBits; ++j) {
    const uint32_t word = load_word(plane + (j * kLanes + lane) * 4);
    for (size_t s = 0; s < kQuads; ++s) {
      uint8_t* four = codes + 4 * (j * kQuads + s);
      const uint32_t merged = load_word(four) | (((word >> (s * kBits)) & kMask) << kShift);
      std::memcpy(four, &merged, sizeof(merged));
    }
  }
}

// Calls op<bits, shift>(offset) for every plane of b-bit codes: how wide it is, which bit of a code
// its lowest is, and where it begins in a run of planes.
template <typename Op>
void for_each_plane(uint32_t bits, const Op& op) {
  constexpr size_t kWordBytes = kLanes * 4;  // a plane of p bits is p words a lane
  switch (bits) {
    case 8:
      return op.template operator()<8, 0>(0);
    case 6:
      op.template operator()<4, 0>(0);
      return op.template operator()<2, 4>(4 * kWordBytes);
    case 5:
      op.template operator()<4, 0>(0);
      return op.template operator()<1, 4>(4 * kWordBytes);
    case 4:
      return op.template operator()<4, 0>(0);
    case 3:
      op.template operator()<2, 0>(0);
      return op.template operator()<1, 2>(2 * kWordBytes);
    case 2:
      return op.template operator()<2, 0>(0);
    default:
      check_failed("width of a code", __FILE__, __LINE__, "complete() checks it");
  }
}

void put_segment(uint32_t bits, const uint8_t* codes, std::byte* planes, size_t lane) {
  for_each_plane(bits, [&]<unsigned kBits, unsigned kShift>(size_t offset) {
    put_plane<kBits, kShift>(codes, planes + offset, lane);
  });
}

void get_segment(uint32_t bits, const std::byte* planes, size_t lane, uint8_t* codes) {
  std::memset(codes, 0, kSegmentElements);
  for_each_plane(bits, [&]<unsigned kBits, unsigned kShift>(size_t offset) {
    get_plane<kBits, kShift>(planes + offset, lane, codes);
  });
}

// d and m came from f16 (mxfp4: are powers of two), so this loses nothing.
void put_half(DType dtype, float value, std::byte* to, size_t lane) {
  const uint16_t half = dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
  std::memcpy(to + 2 * lane, &half, sizeof(half));
}

void put_chunk(const QuantFormat& format, const BlockCodes& from, std::byte* chunk, size_t lane) {
  put_half(format.scale_dtype, from.d, chunk, lane);
  if (format.has_min) put_half(format.scale_dtype, from.m, chunk + format.m_offset, lane);
  for (size_t g = 0; g < format.chunk_groups && format.two_level; ++g) {
    std::memcpy(chunk + format.scales_offset + g * kLanes + lane, &from.scales[g], 1);
    if (!format.has_min) continue;
    std::memcpy(chunk + format.mins_offset + g * kLanes + lane, &from.mins[g], 1);
  }
}

void put_codes(const QuantFormat& format, const uint8_t* codes, std::byte* chunk, size_t lane) {
  const size_t segment_bytes = kLanes * kSegmentElements / 8 * format.bits;
  std::byte* to = chunk + format.codes_offset;
  for (size_t at = 0; at < format.chunk_elements; at += kSegmentElements, to += segment_bytes) {
    put_segment(format.bits, codes + at, to, lane);
  }
}

}  // namespace

QuantFormat complete(QuantFormat format) {
  const uint32_t bits = format.bits;
  const uint32_t group = format.group_size;
  CAIRN_CHECK((bits >= 2 && bits <= 6) || bits == 8, "codes of 2 to 6 or 8 bits");
  CAIRN_CHECK(group == 16 || group == 32 || group == 64 || group == 128, "group sizes");
  CAIRN_CHECK(format.two_level || group >= kSegmentElements, "a chunk is whole runs of planes");
  const uint32_t scale_bytes = static_cast<uint32_t>(dtype_bytes(format.scale_dtype));
  format.chunk_elements = format.two_level ? kChunkElements : group;
  format.chunk_groups = format.chunk_elements / group;
  format.m_offset = kLanes * scale_bytes;
  format.scales_offset = format.m_offset + (format.has_min ? kLanes * scale_bytes : 0);
  const uint32_t level_bytes = format.two_level ? kLanes * format.chunk_groups : 0;
  format.mins_offset = format.scales_offset + level_bytes;
  format.codes_offset = format.mins_offset + (format.has_min ? level_bytes : 0);
  format.chunk_bytes = format.codes_offset + kLanes * format.chunk_elements / 8 * bits;
  return format;
}

QuantFormat quant_format_of(DType block_type) {
  const BlockScheme scheme = block_scheme(block_type);
  QuantFormat format;
  format.bits = scheme.bits;
  format.group_size = scheme.group_size;
  format.zero = scheme.zero;
  format.has_min = scheme.has_min;
  format.two_level = scheme.two_level;
  format.scale_dtype = block_type == DType::kMxfp4 ? DType::kBf16 : DType::kF16;
  return complete(format);
}

void pack_quant_panel(const QuantFormat& format,
                      const QuantRow* rows,
                      size_t n_in,
                      std::byte* panel) {
  const size_t scale_bytes = dtype_bytes(format.scale_dtype);
  BlockCodes block;
  // All lanes of a chunk before the next: a chunk stays in the first-level cache.
  for (size_t c = 0; c < n_in / format.chunk_elements; ++c, panel += format.chunk_bytes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const QuantRow& row = rows[lane];
      if (row.values == nullptr) continue;
      if (is_block_type(row.dtype)) {
        decode_block(row.dtype, row.values + c * block_shape(row.dtype).n_bytes, &block);
        put_chunk(format, block, panel, lane);
      } else {
        const size_t n = format.group_size;
        decode_affine_codes(row.values, format.bits, c * n, n, block.codes);
        std::memcpy(panel + lane * scale_bytes, row.scales + c * scale_bytes, scale_bytes);
        std::memcpy(panel + format.m_offset + lane * scale_bytes,
                    row.biases + c * scale_bytes,
                    scale_bytes);
      }
      put_codes(format, block.codes, panel, lane);
    }
  }
}

void gather_quant_row(
    const QuantFormat& format, const std::byte* panel, size_t lane, size_t n_in, float* out) {
  const size_t segment_bytes = kLanes * kSegmentElements / 8 * format.bits;
  uint8_t codes[kSegmentElements];
  for (size_t at = 0; at < n_in; at += kSegmentElements) {
    const std::byte* chunk = panel + at / format.chunk_elements * format.chunk_bytes;
    const size_t inside = at % format.chunk_elements;
    const float d = float_element(format.scale_dtype, chunk, lane);
    const float m =
        format.has_min ? float_element(format.scale_dtype, chunk + format.m_offset, lane) : 0.0F;
    get_segment(format.bits,
                chunk + format.codes_offset + inside / kSegmentElements * segment_bytes,
                lane,
                codes);
    for (size_t i = 0; i < kSegmentElements; ++i) {
      const size_t g = (inside + i) / format.group_size * kLanes + lane;
      float scale = d;
      float min = m;
      if (format.two_level) {
        scale *= static_cast<float>(static_cast<int8_t>(chunk[format.scales_offset + g]));
        if (format.has_min)
          min *= static_cast<float>(static_cast<int8_t>(chunk[format.mins_offset + g]));
      }
      const auto level = static_cast<float>(codes[i] - static_cast<int>(format.zero));
      out[at + i] = format.has_min ? std::fma(scale, level, min) : scale * level;
    }
  }
}

}  // namespace cairn
