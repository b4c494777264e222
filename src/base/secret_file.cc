#include "base/secret_file.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/file_system.h"

namespace cairn {

Result<std::string> read_secret_file(const std::string& path,
                                     std::string_view what,
                                     uint64_t n_bytes_max) {
  struct stat info {};

  if (stat(path.c_str(), &info) != 0) return Status::from_errno(errno, "open " + path);
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Status::invalid_argument(
        fmt::format("{}: others can read this {} (mode {:03o}); make it private with chmod 600",
                    path,
                    what,
                    info.st_mode & 0777U));
  }
  return read_text_file(posix_file_system(), path, n_bytes_max);
}

}  // namespace cairn
