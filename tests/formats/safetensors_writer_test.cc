#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "formats/safetensors.h"
#include "formats/test_files.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

size_t n_files(const std::string& folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

// Writes `file` again, its tensors in the order of their bytes.
void write_again(const SafetensorsFile& file, const std::string& path) {
  auto writer = SafetensorsWriter::create(path, file.tensors(), file.metadata());
  ASSERT_TRUE(writer.is_ok()) << writer.status().to_string();
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    ASSERT_TRUE(writer->write(file.tensor_at(i).bytes).is_ok());
  }
  ASSERT_TRUE(writer->finish().is_ok());
}

TEST(SafetensorsWriter, RoundTripGivesTheSameBytes) {
  const TempFolder folder;
  const auto original = SafetensorsFile::open(oracle_folder("qwen3") + "/model.safetensors");
  ASSERT_TRUE(original.is_ok());
  write_again(*original, folder / "1.safetensors");
  const auto first = SafetensorsFile::open(folder / "1.safetensors");
  ASSERT_TRUE(first.is_ok()) << first.status().to_string();
  ASSERT_EQ(first->tensors().size(), original->tensors().size());
  EXPECT_EQ(first->metadata(), original->metadata());
  for (const TensorInfo& tensor : original->tensors()) {
    const auto view = first->tensor(tensor.name);
    ASSERT_TRUE(view.is_ok());
    EXPECT_EQ(view->dtype, tensor.dtype);
    EXPECT_EQ(view->shape, tensor.shape);
    EXPECT_EQ(to_text(*view), to_text(*original->tensor(tensor.name)));
  }
  write_again(*first, folder / "2.safetensors");
  EXPECT_EQ(read_all(folder / "1.safetensors"), read_all(folder / "2.safetensors"));
}

TEST(SafetensorsWriter, PiecesMayCrossTensorsAndBuffers) {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  constexpr size_t kBytes = (9 << 20) + 5;  // more than two buffers
  std::string bytes(kBytes, '\0');
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<char>(i * 31 + (i >> 12));
  auto writer = SafetensorsWriter::create(
      path,
      {declare("a", DType::kU8, {5}), declare("b", DType::kU8, {int64_t{kBytes} - 5})},
      {{"first_row", "3"}, {"quote", "\"\\\n"}});
  ASSERT_TRUE(writer.is_ok());
  size_t done = 0;
  for (size_t piece = 1; done < kBytes; piece = piece * 3 + 1) {
    const size_t n = std::min(piece, kBytes - done);
    ASSERT_TRUE(writer->write(as_bytes(std::string_view(bytes).substr(done, n))).is_ok());
    done += n;
  }
  ASSERT_TRUE(writer->finish().is_ok());
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.is_ok()) << file.status().to_string();
  EXPECT_EQ(to_text(*file->tensor("a")) + to_text(*file->tensor("b")), bytes);
  EXPECT_EQ(file->metadata().at("first_row"), "3");
  EXPECT_EQ(file->metadata().at("quote"), "\"\\\n");
}

TEST(SafetensorsWriter, DataBeginsOnACacheLine) {
  const TempFolder folder;
  for (const char* name : {"a", "abcdefg", "a.much.longer.name.weight"}) {
    const std::string path = folder / "x.safetensors";
    write_u8_tensors(path, {{name, "z"}});
    EXPECT_EQ(SafetensorsFile::open(path)->tensors()[0].offset % 64, 0U);
  }
}

TEST(SafetensorsWriter, NothingAppearsBeforeFinish) {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  {
    auto writer = SafetensorsWriter::create(path, {declare("a", DType::kU8, {4})});
    ASSERT_TRUE(writer.is_ok());
    ASSERT_TRUE(writer->write(as_bytes("abc")).is_ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    const Status early = writer->finish();
    EXPECT_EQ(early.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(early.message(), HasSubstr("1 declared bytes"));
  }
  EXPECT_EQ(n_files(folder.path()), 0U);  // the temporary file went with the writer
}

TEST(SafetensorsWriter, RefusesMoreBytesThanDeclared) {
  const TempFolder folder;
  auto writer = SafetensorsWriter::create(folder / "x", {declare("a", DType::kU8, {2})});
  ASSERT_TRUE(writer.is_ok());
  EXPECT_EQ(writer->write(as_bytes("abc")).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(writer->write(as_bytes("ab")).is_ok());
  EXPECT_TRUE(writer->finish().is_ok());
  EXPECT_EQ(writer->finish().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(writer->write(as_bytes("c")).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(SafetensorsFile::open(folder / "x").is_ok());
}

TEST(SafetensorsWriter, ReplacesAnOldFileInOneStep) {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  write_u8_tensors(path, {{"old", "1"}});
  const auto old = SafetensorsFile::open(path);
  write_u8_tensors(path, {{"new", "22"}});
  EXPECT_EQ(to_text(*old->tensor("old")), "1");  // the mapping holds the old file
  EXPECT_EQ(to_text(*SafetensorsFile::open(path)->tensor("new")), "22");
  EXPECT_EQ(n_files(folder.path()), 1U);
}

TEST(SafetensorsWriter, RefusesBadDeclarations) {
  const TempFolder folder;
  const auto code = [&](std::vector<TensorInfo> tensors) {
    return SafetensorsWriter::create(folder / "x", std::move(tensors)).status().code();
  };
  EXPECT_EQ(code({declare("a", DType::kU8, {1}), declare("a", DType::kU8, {1})}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code({declare("__metadata__", DType::kU8, {1})}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({declare("a", DType::kU8, {-1})}), StatusCode::kInvalidArgument);
  EXPECT_NE(code({declare("a", DType::kF64, {int64_t{1} << 62, 8})}), StatusCode::kOk);
  EXPECT_EQ(SafetensorsWriter::create(folder / "no/such/folder/x", {}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(n_files(folder.path()), 0U);
}

TEST(SafetensorsWriter, RefusesPipesAndFollowsLinks) {
  const TempFolder folder;
  const std::string pipe = (folder / "pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto refused = SafetensorsWriter::create(pipe, {});
  ASSERT_FALSE(refused.is_ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));

  std::ofstream((folder / "target")) << "old";
  std::filesystem::create_symlink((folder / "target"), (folder / "link"));
  auto writer = SafetensorsWriter::create((folder / "link"), {});
  ASSERT_TRUE(writer.is_ok()) << writer.status().to_string();
  ASSERT_TRUE(writer->finish().is_ok());
  EXPECT_TRUE(std::filesystem::is_symlink((folder / "link")));
  EXPECT_TRUE(SafetensorsFile::open((folder / "target")).is_ok());
}

}  // namespace
}  // namespace cairn
