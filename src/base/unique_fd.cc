#include "base/unique_fd.h"

#include <unistd.h>

namespace cairn {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void UniqueFd::reset() {
  // Not retried on EINTR: Linux has closed the descriptor by then, and its number may be in use.
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace cairn
