// Files of token ids: {"ids": [1, 2, 3]}, {"ids": [[...], [...]]}, a list, or a list of lists.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cache/token.h"

namespace cairn::cli {

struct IdLists {
  std::vector<std::vector<TokenId>> lists;
  bool is_single = false;  // one flat list: results are not numbered
};

// Errors: kNotFound, kInvalidArgument naming the file and what is wrong with it.
Result<IdLists> read_id_file(const std::string& path);

}  // namespace cairn::cli
