// Any text as a hub's list of files: refused, or names that may be made below a folder and a choice
// that keeps to them.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "hub/listing.h"
#include "hub/model_name.h"
#include "hub/selection.h"

namespace {

void check_path(const std::string& name) {
  CAIRN_CHECK(!name.empty() && name.front() != '/' && name.back() != '/', "relative");
  CAIRN_CHECK(name.find('\0') == std::string::npos, "no NUL");
  CAIRN_CHECK(name.find('\\') == std::string::npos, "no backslash");
  const std::string framed = "/" + name + "/";
  for (const char* part : {"/../", "/./", "//"}) {
    CAIRN_CHECK(framed.find(part) == std::string::npos, "stays in its folder");
  }
}

void check_selection(const cairn::Listing& listing, const cairn::ModelName& name) {
  const auto selection = cairn::select_files(listing, name);
  if (!selection.is_ok()) return;
  CAIRN_CHECK(!selection->files.empty(), "something is selected");
  for (const cairn::RepoFile& file : selection->files) {
    bool is_listed = false;
    for (const cairn::RepoFile& other : listing.files) is_listed |= other.name == file.name;
    CAIRN_CHECK(is_listed, "nothing is made up");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto listing = cairn::parse_listing(text);
  if (listing.is_ok()) {
    for (const cairn::RepoFile& file : listing->files) {
      check_path(file.name);
      CAIRN_CHECK(file.size_bytes.value_or(0) <= cairn::kRepoFileBytesMax, "size");
    }
    for (const char* name : {"a/b", "a/b:Q4_K_M", "a/b/x-00001-of-00002.gguf"}) {
      check_selection(*listing, *cairn::parse_model_name(name));
    }
  }
  const auto name = cairn::parse_model_name(text);
  if (name.is_ok()) {
    CAIRN_CHECK(name->text() == text, "one spelling each");
    check_path(name->repo_id());
  }
  return 0;
}
