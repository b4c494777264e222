#include "formats/rotary_rows.h"

namespace cairn {

std::vector<uint32_t> rows_in_pairs(size_t n_rows, size_t head_dim, size_t rope_dim) {
  std::vector<uint32_t> order(n_rows);
  const size_t n_pairs = rope_dim / 2;
  for (size_t row = 0; row < n_rows; ++row) {
    const size_t in_head = row % head_dim;
    const size_t found = in_head < rope_dim ? in_head % n_pairs * 2 + in_head / n_pairs : in_head;
    order[row] = static_cast<uint32_t>(row - in_head + found);
  }
  return order;
}

std::vector<uint32_t> rows_in_halves(size_t n_rows, size_t head_dim, size_t rope_dim) {
  const std::vector<uint32_t> forward = rows_in_pairs(n_rows, head_dim, rope_dim);
  std::vector<uint32_t> order(n_rows);
  for (size_t row = 0; row < n_rows; ++row) order[forward[row]] = static_cast<uint32_t>(row);
  return order;
}

}  // namespace cairn
