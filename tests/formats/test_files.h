// A folder for one test, and files in it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/coding.h"
#include "base/hash.h"
#include "formats/safetensors.h"

namespace cairn {

// Removed with everything in it.
class TempFolder {
 public:
  TempFolder()
      : path_(std::filesystem::temp_directory_path() / ("cairn-formats-" + random_hex_128())) {
    std::filesystem::create_directories(path_);
  }

  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  TempFolder(TempFolder&&) = delete;
  TempFolder& operator=(TempFolder&&) = delete;

  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_.string(); }

  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  ASSERT_TRUE(file.good()) << path;
}

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The bytes of a safetensors file with this header and `n_data` bytes 0, 1, 2, ...
inline std::string safetensors_bytes(std::string_view header, size_t n_data) {
  std::string file(8, '\0');
  store_le<uint64_t>(reinterpret_cast<std::byte*>(file.data()), header.size());
  file += header;
  for (size_t i = 0; i < n_data; ++i) file += static_cast<char>(i);
  return file;
}

inline TensorInfo declare(std::string name, DType dtype, std::vector<int64_t> shape) {
  TensorInfo info;
  info.name = std::move(name);
  info.dtype = dtype;
  info.shape = std::move(shape);
  return info;
}

// Writes a file whose u8 tensors [n] are each filled with one value.
inline void write_u8_tensors(const std::string& path,
                             const std::vector<std::pair<std::string, std::string>>& tensors) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, bytes] : tensors) {
    infos.push_back(declare(name, DType::kU8, {static_cast<int64_t>(bytes.size())}));
  }
  auto writer = SafetensorsWriter::create(path, infos);
  ASSERT_TRUE(writer.is_ok()) << writer.status().to_string();
  for (const auto& [name, bytes] : tensors) ASSERT_TRUE(writer->write(as_bytes(bytes)).is_ok());
  ASSERT_TRUE(writer->finish().is_ok());
}

inline std::string to_text(const TensorView& view) {
  return {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()};
}

inline std::string oracle_folder(std::string_view name) {
  return std::string(CAIRN_SOURCE_DIR) + "/tests/data/oracles/" + std::string(name);
}

}  // namespace cairn
