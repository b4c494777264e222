// How attention is shared out: by segment, kv head and tile of query rows, and for a few rows over
// a long past also by split.
#include <algorithm>

#include "base/check.h"
#include "kernels/cpu_backend.h"

namespace cairn {

namespace {

size_t ceil_div(size_t a, size_t b) {
  return (a + b - 1) / b;
}

// The part's splits, absolute: those that any of its rows sees.
void set_splits(AttendPart& part) {
  const size_t first = part.pos_begin + part.row_begin;
  const size_t begin = part.window != 0 && first + 1 > part.window ? first + 1 - part.window : 0;
  part.split_begin = begin / kSplitTokens;
  part.split_end = ceil_div(part.pos_begin + part.row_end, kSplitTokens);
}

}  // namespace

void CpuBackend::list_attend_parts(const AttendArgs& args) {
  const PageLayout& layout = *args.layout;
  const size_t hd = layout.head_dim;
  AttendPart part;
  part.q_stride = args.q_stride;
  part.group = args.n_heads / layout.n_kv_heads;
  part.head_dim = hd;
  part.scale = args.scale;
  part.window = args.window;
  part.page_tokens = layout.page_tokens;
  part.strip_bytes = layout.strip_bytes();
  part.out_stride = args.n_heads * hd;
  const size_t heads = std::min(part.group, kAttendRows);
  const size_t rows = kAttendRows / heads;
  attend_parts_.clear();
  for (const RowSegment& segment : args.segments) {
    part.pos_begin = segment.pos_begin;
    part.pages = segment.pages;
    // Latest rows first: they see most, and short parts at the end leave no thread waiting long.
    for (size_t tile = ceil_div(segment.n_rows, rows); tile-- > 0;) {
      part.row_begin = tile * rows;
      part.row_end = std::min(segment.n_rows, part.row_begin + rows);
      set_splits(part);
      for (uint32_t kv_head = 0; kv_head < layout.n_kv_heads; ++kv_head) {
        part.q = args.q + segment.row_begin * args.q_stride + kv_head * part.group * hd;
        part.out = args.out + segment.row_begin * part.out_stride + kv_head * part.group * hd;
        part.k_offset = layout.k_offset(args.layer, kv_head);
        part.v_offset = layout.v_offset(args.layer, kv_head);
        for (part.head_begin = 0; part.head_begin < part.group; part.head_begin = part.head_end) {
          part.head_end = std::min(part.group, part.head_begin + heads);
          attend_parts_.push_back(part);
        }
      }
    }
  }
}

// With too few parts for the threads, every split of a part becomes a part of its own; the results
// meet in scratch and are merged in order afterwards, by the operations that a single thread uses.
void CpuBackend::split_attend_parts() {
  attend_merges_.clear();
  if (pool_.n_threads() == 1 || attend_parts_.size() >= size_t{4} * pool_.n_threads()) return;
  size_t n_floats = 0;
  for (AttendPart& part : attend_parts_) {
    part.n_splits = part.split_end;
    const size_t rows = part.row_end - part.row_begin;
    if (part.split_end - part.split_begin < 2) continue;
    n_floats += rows * part.group * part.n_splits * (part.head_dim + 2);
  }
  if (n_floats == 0) return;
  float* partial = reinterpret_cast<float*>(scratch(n_floats * sizeof(float)));
  const size_t n_whole = attend_parts_.size();
  for (size_t i = 0; i < n_whole; ++i) {
    AttendPart part = attend_parts_[i];
    if (part.split_end - part.split_begin < 2) continue;
    part.partial = partial;
    partial += (part.row_end - part.row_begin) * part.group * part.n_splits * (part.head_dim + 2);
    attend_merges_.push_back(part);
    const size_t split_end = part.split_end;
    for (size_t split = part.split_begin; split < split_end; ++split) {
      part.split_begin = split;
      part.split_end = split + 1;
      attend_parts_.push_back(part);
    }
    attend_parts_[i].split_end = attend_parts_[i].split_begin;  // nothing left to do here
  }
  std::erase_if(attend_parts_, [](const AttendPart& p) { return p.split_begin == p.split_end; });
}

void CpuBackend::attend(const AttendArgs& args) {
  CAIRN_CHECK(args.layout->head_dim <= kMaxHeadDim, "head_dim above 512 has no kernel");
  CAIRN_CHECK(args.n_heads % args.layout->n_kv_heads == 0,
              "query heads do not share kv heads evenly");
  list_attend_parts(args);
  split_attend_parts();
  const auto kernel =
      args.layout->encoding == RowEncoding::kF32 ? dot_.attend_f32 : dot_.attend_bf16;
  pool_.run(attend_parts_.size(), [&](size_t i) { kernel(attend_parts_[i]); });
  pool_.run(attend_merges_.size(), [&](size_t i) { dot_.attend_merge(attend_merges_[i]); });
}

}  // namespace cairn
