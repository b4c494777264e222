#include "base/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/unique_fd.h"

namespace cairn {

Result<Mapping> Mapping::open(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open()) return Status::from_errno(errno, fmt::format("open {}", path));

  struct stat st {};

  if (::fstat(fd.get(), &st) != 0) return Status::from_errno(errno, fmt::format("stat {}", path));
  if (!S_ISREG(st.st_mode)) {
    return Status::io(
        fmt::format("map {}: it is not a regular file; give the path of a file", path));
  }
  Mapping mapping;
  if (st.st_size == 0) return mapping;
  mapping.size_ = static_cast<size_t>(st.st_size);
  void* data = ::mmap(nullptr, mapping.size_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return Status::from_errno(errno, fmt::format("map {}", path));
  mapping.data_ = static_cast<const std::byte*>(data);
  return mapping;
}

void drop_resident(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + bytes.size()) / page * page;
  if (begin >= end) return;
  ::madvise(const_cast<std::byte*>(bytes.data() + (begin - address)), end - begin, MADV_DONTNEED);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace cairn
