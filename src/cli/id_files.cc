#include "cli/id_files.h"

#include <fmt/format.h>

#include "base/file_system.h"
#include "base/json.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

Result<std::vector<TokenId>> to_ids(const Json& list, const std::string& path) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<int64_t>() < 0 || item.get<int64_t>() > UINT32_MAX) {
      return Status::invalid_argument(
          fmt::format("{}: id {} is {}, wanted a whole number from 0 to 4294967295",
                      path,
                      ids.size(),
                      dump_json(item)));
    }
    ids.push_back(item.get<TokenId>());
  }
  if (ids.empty()) return Status::invalid_argument(fmt::format("{}: a list of ids is empty", path));
  return ids;
}

}  // namespace

Result<IdLists> read_id_file(const std::string& path) {
  const auto text = read_text_file(posix_file_system(), path, kMaxFileBytes);
  if (!text.is_ok()) {
    return Status(text.status().code(),
                  fmt::format("the file of ids cannot be read: {}; wanted {{\"ids\": [...]}} or a "
                              "list of lists of ids",
                              text.status().message()));
  }
  CAIRN_ASSIGN_OR_RETURN(const Json parsed, parse_json(*text, path));
  const Json* value = &parsed;
  if (parsed.is_object() && parsed.contains("ids")) value = &parsed["ids"];
  if (!value->is_array() || value->empty()) {
    return Status::invalid_argument(
        fmt::format("{}: wanted {{\"ids\": [...]}} or a list of lists of ids", path));
  }
  IdLists result;
  result.is_single = !value->front().is_array();
  if (result.is_single) {
    CAIRN_ASSIGN_OR_RETURN(std::vector<TokenId> ids, to_ids(*value, path));
    result.lists.push_back(std::move(ids));
    return result;
  }
  for (const Json& list : *value) {
    if (!list.is_array())
      return Status::invalid_argument(fmt::format("{}: lists and ids are mixed", path));
    CAIRN_ASSIGN_OR_RETURN(std::vector<TokenId> ids, to_ids(list, path));
    result.lists.push_back(std::move(ids));
  }
  return result;
}

}  // namespace cairn::cli
