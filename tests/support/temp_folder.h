// A folder of its own for each test that needs the real file system; gone with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.h"

namespace cairn {

class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "cairn-test-XXXXXX").string()) {
    CAIRN_CHECK(::mkdtemp(path_.data()) != nullptr, "no temporary folder can be made");
  }

  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  TempFolder(TempFolder&&) = delete;
  TempFolder& operator=(TempFolder&&) = delete;

  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace cairn
