// A file descriptor that closes itself.
#pragma once

namespace cairn {

class UniqueFd {
 public:
  UniqueFd() = default;

  explicit UniqueFd(int fd) : fd_(fd) {}

  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}

  UniqueFd& operator=(UniqueFd&& other) noexcept;

  ~UniqueFd() { reset(); }

  int get() const { return fd_; }

  bool is_open() const { return fd_ >= 0; }

  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

  void reset();

 private:
  int fd_ = -1;
};

}  // namespace cairn
