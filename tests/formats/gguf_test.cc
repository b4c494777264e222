#include "formats/gguf.h"

#include <gtest/gtest.h>

#include "formats/test_files.h"

namespace cairn {
namespace {

constexpr uint32_t kF32Number = 0;
constexpr uint32_t kQ8Number = 8;

// A GGUF file made field by field, so that each field can be wrong.
struct RawTensor {
  std::string name;
  std::vector<uint64_t> dims;  // innermost first
  uint32_t type = kF32Number;
  uint64_t offset = 0;
};

struct RawGguf {
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  GgufMetadataBuilder metadata;
  std::vector<std::byte> more_metadata;  // after the builder's
  uint64_t n_more_entries = 0;
  std::vector<RawTensor> tensors;
  uint64_t n_tensors_claimed = 0;  // 0: as many as there are
  size_t n_data = 0;

  std::vector<std::byte> bytes() const {
    ByteWriter out;
    out.u32(magic);
    out.u32(version);
    out.u64(n_tensors_claimed != 0 ? n_tensors_claimed : tensors.size());
    out.u64(metadata.n_entries() + n_more_entries);
    out.bytes(metadata.bytes());
    out.bytes(more_metadata);
    for (const RawTensor& tensor : tensors) {
      out.u64(tensor.name.size());
      out.bytes(as_bytes(tensor.name));
      out.u32(static_cast<uint32_t>(tensor.dims.size()));
      for (const uint64_t dim : tensor.dims) out.u64(dim);
      out.u32(tensor.type);
      out.u64(tensor.offset);
    }
    out.zeros((32 - out.size() % 32) % 32 + n_data);
    return out.take();
  }
};

RawGguf two_tensors() {
  RawGguf raw;
  raw.metadata.add_string("general.architecture", "llama");
  raw.tensors = {{"a", {8, 2}, kF32Number, 0}, {"b", {32}, kQ8Number, 64}};
  raw.n_data = 64 + 34;
  return raw;
}

void expect_refused(const RawGguf& raw, StatusCode code, std::string_view part) {
  const auto layout = parse_gguf(raw.bytes());
  ASSERT_FALSE(layout.is_ok()) << part;
  EXPECT_EQ(layout.status().code(), code) << layout.status().message();
  EXPECT_NE(layout.status().message().find(part), std::string::npos) << layout.status().message();
}

TEST(Gguf, ReadsTensorsWithTheOuterDimensionFirst) {
  const std::vector<std::byte> file = two_tensors().bytes();
  const auto layout = parse_gguf(file);
  ASSERT_TRUE(layout.is_ok()) << layout.status().message();
  EXPECT_EQ(layout->version, 3U);
  ASSERT_EQ(layout->tensors.size(), 2U);
  EXPECT_EQ(layout->tensors[0].name, "a");
  EXPECT_EQ(layout->tensors[0].shape, (std::vector<int64_t>{2, 8}));
  EXPECT_EQ(layout->tensors[1].dtype, DType::kQ8_0);
  EXPECT_EQ(layout->tensors[1].n_bytes, 34U);
  EXPECT_EQ(layout->tensors[1].offset + 34, file.size());
}

TEST(Gguf, ReadsVersion2) {
  RawGguf raw = two_tensors();
  raw.version = 2;
  EXPECT_TRUE(parse_gguf(raw.bytes()).is_ok());
}

TEST(Gguf, RefusesOtherVersionsAndByteOrdersByName) {
  RawGguf raw = two_tensors();
  raw.version = 1;
  expect_refused(raw, StatusCode::kUnsupported, "version 1");
  raw.version = 4;
  expect_refused(raw, StatusCode::kUnsupported, "version 4");
  raw.version = 0x03000000;
  expect_refused(raw, StatusCode::kUnsupported, "big-endian");
  raw.magic = 0x46554746;
  expect_refused(raw, StatusCode::kCorruption, "no GGUF file");
}

TEST(Gguf, NamesElementTypesItDoesNotRead) {
  RawGguf raw = two_tensors();
  raw.tensors[1].type = 17;
  expect_refused(raw, StatusCode::kUnsupported, "IQ2_XS");
  raw.tensors[1].type = 4;
  expect_refused(raw, StatusCode::kUnsupported, "Q4_2");
  raw.tensors[1].type = 999;
  expect_refused(raw, StatusCode::kUnsupported, "999");
}

TEST(Gguf, RefusesTensorsThatCannotBe) {
  RawGguf raw = two_tensors();
  raw.tensors[1].dims = {33};
  expect_refused(raw, StatusCode::kCorruption, "no multiple of 32");
  raw = two_tensors();
  raw.tensors[1].offset = 65;
  expect_refused(raw, StatusCode::kCorruption, "alignment");
  raw = two_tensors();
  raw.tensors[1].offset = 32;
  expect_refused(raw, StatusCode::kCorruption, "inside the one before");
  raw = two_tensors();
  raw.tensors[1].offset = 96;
  expect_refused(raw, StatusCode::kCorruption, "runs past the file");
  raw.tensors[1].offset = ~uint64_t{31};
  expect_refused(raw, StatusCode::kCorruption, "begins at");
  raw = two_tensors();
  raw.tensors[0].dims = {uint64_t{1} << 40, uint64_t{1} << 40};
  expect_refused(raw, StatusCode::kCorruption, "64 bits");
  raw.tensors[0].dims = {0};
  expect_refused(raw, StatusCode::kCorruption, "dimension 0");
  raw.tensors[0].dims = {1, 1, 1, 1, 1};
  expect_refused(raw, StatusCode::kCorruption, "5 dimensions");
  raw = two_tensors();
  raw.tensors[1].name = "a";
  expect_refused(raw, StatusCode::kCorruption, "twice");
  raw = two_tensors();
  raw.n_tensors_claimed = uint64_t{1} << 62;
  expect_refused(raw, StatusCode::kCorruption, "tensor count");
}

TEST(Gguf, RefusesMetadataThatCannotBe) {
  RawGguf raw = two_tensors();
  raw.metadata.add_u32("general.architecture", 1);
  expect_refused(raw, StatusCode::kCorruption, "twice");
  raw = two_tensors();
  raw.metadata.add_u32("general.alignment", 48);
  expect_refused(raw, StatusCode::kCorruption, "power of two");
  raw = two_tensors();
  raw.metadata.add_u32("general.alignment", 0);
  expect_refused(raw, StatusCode::kInvalidArgument, "general.alignment");
  raw = two_tensors();
  raw.n_more_entries = uint64_t{1} << 40;
  expect_refused(raw, StatusCode::kCorruption, "metadata count");
}

std::vector<std::byte> entry_bytes(uint32_t type, std::span<const std::byte> value) {
  ByteWriter out;
  out.u64(1);
  out.u8('k');
  out.u32(type);
  out.bytes(value);
  return out.take();
}

TEST(Gguf, BoundsNestingAndLengths) {
  // k: array of array of ... of u8; each level is {type 9, count 1} around the next.
  for (const int depth : {1, 2, 4, 5, 9}) {
    RawGguf raw = two_tensors();
    ByteWriter value;
    for (int i = 1; i < depth; ++i) {
      value.u32(9);
      value.u64(1);
    }
    value.u32(0);
    value.u64(1);
    value.u8(7);
    raw.more_metadata = entry_bytes(9, value.view());
    raw.n_more_entries = 1;
    EXPECT_EQ(parse_gguf(raw.bytes()).is_ok(), depth <= 5) << depth;
  }
  RawGguf raw = two_tensors();
  ByteWriter huge;
  huge.u64(~uint64_t{0});
  raw.more_metadata = entry_bytes(8, huge.view());
  raw.n_more_entries = 1;
  expect_refused(raw, StatusCode::kCorruption, "metadata string");
  ByteWriter many;
  many.u32(10);
  many.u64(uint64_t{1} << 61);  // times 8 bytes is 0 in 64 bits
  raw.more_metadata = entry_bytes(9, many.view());
  expect_refused(raw, StatusCode::kCorruption, "metadata value");
  raw.more_metadata = entry_bytes(13, {});
  expect_refused(raw, StatusCode::kCorruption, "value type 13");
}

TEST(Gguf, RefusesEveryTruncation) {
  const std::vector<std::byte> file = two_tensors().bytes();
  for (size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(parse_gguf(std::span(file).first(n)).is_ok()) << n;
  }
}

GgufMetadataBuilder every_value_type() {
  GgufMetadataBuilder metadata;
  metadata.add_u32("u32", 4000000000U);
  metadata.add_f32("f32", 0.5F);
  metadata.add_bool("bool", true);
  metadata.add_string("string", "a\nb");
  const std::vector<std::string> strings = {"", "x", "yz"};
  metadata.add_strings("strings", strings);
  const std::vector<float> floats = {1.0F, -2.5F};
  metadata.add_f32s("f32s", floats);
  const std::vector<int32_t> ints = {3, 3, 3};
  metadata.add_i32s("i32s", ints);
  metadata.add_bools("bools", {true, false});
  return metadata;
}

TEST(GgufWriter, WhatItWritesIsReadBack) {
  const TempFolder folder;
  const std::string path = folder / "x.gguf";
  auto writer =
      GgufWriter::create(path,
                         {declare("a", DType::kF32, {2, 3}), declare("b", DType::kQ4K, {1, 256})},
                         every_value_type());
  ASSERT_TRUE(writer.is_ok()) << writer.status().message();
  const std::string a(24, 'a');
  const std::string b(144, 'b');
  ASSERT_TRUE(writer->write(as_bytes(a).first(10)).is_ok());
  ASSERT_TRUE(writer->write(as_bytes(a).subspan(10)).is_ok());
  ASSERT_TRUE(writer->write(as_bytes(b)).is_ok());
  EXPECT_EQ(writer->write(as_bytes("c")).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(writer->finish().is_ok());
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.is_ok()) << file.status().message();
  EXPECT_EQ(to_text(file->tensor_at(0)), a);
  EXPECT_EQ(to_text(file->tensor_at(1)), b);
  EXPECT_EQ(file->tensors()[0].offset % 32, 0U);
  // Written again from what was read, the bytes are the same.
  GgufMetadataBuilder again;
  for (const GgufEntry& entry : file->metadata().entries()) again.add(entry);
  auto second = GgufWriter::create(folder / "y.gguf", file->tensors(), again);
  ASSERT_TRUE(second.is_ok());
  ASSERT_TRUE(second->write(as_bytes(a)).is_ok());
  ASSERT_TRUE(second->write(as_bytes(b)).is_ok());
  ASSERT_TRUE(second->finish().is_ok());
  EXPECT_EQ(read_all(path), read_all(folder / "y.gguf"));
}

TEST(GgufWriter, RefusesWhatCannotBeAndLeavesNoFile) {
  const TempFolder folder;
  const auto code = [&](std::vector<TensorInfo> tensors) {
    return GgufWriter::create(folder / "x.gguf", std::move(tensors), {}).status().code();
  };
  EXPECT_EQ(code({declare("a", DType::kU8, {2})}), StatusCode::kUnsupported);
  EXPECT_EQ(code({declare("a", DType::kF32, {})}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({declare("a", DType::kQ4K, {128})}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({declare("a", DType::kF32, {1}), declare("a", DType::kF32, {1})}),
            StatusCode::kInvalidArgument);
  {
    auto writer = GgufWriter::create(folder / "x.gguf", {declare("a", DType::kF32, {2})}, {});
    ASSERT_TRUE(writer.is_ok());
    ASSERT_TRUE(writer->write(as_bytes("four")).is_ok());
    EXPECT_EQ(writer->finish().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(GgufMetadata, GivesTypedValues) {
  RawGguf raw;
  raw.metadata = every_value_type();
  const std::vector<std::byte> file = raw.bytes();
  const auto layout = parse_gguf(file);
  ASSERT_TRUE(layout.is_ok()) << layout.status().message();
  const GgufMetadata& m = layout->metadata;
  EXPECT_EQ(m.get_int("u32", 0, INT64_MAX).value(), 4000000000);
  EXPECT_EQ(m.find_int("i32s", 0, 9).value(), 3);  // one value for all layers
  EXPECT_EQ(m.find_number("f32", 0, 1).value(), 0.5);
  EXPECT_EQ(m.find_number("u32", 0, 1e10).value(), 4e9);
  EXPECT_EQ(m.find_bool("bool").value(), true);
  EXPECT_EQ(m.find_string("string").value(), "a\nb");
  EXPECT_EQ(m.find_strings("strings", 3).value(), (std::vector<std::string_view>{"", "x", "yz"}));
  EXPECT_EQ(m.find_numbers("f32s", 2).value(), (std::vector<double>{1.0, -2.5}));
  EXPECT_EQ(m.find_numbers("bools", 2).value(), (std::vector<double>{1.0, 0.0}));
  EXPECT_EQ(m.find_int("none", 0, 9).value(), std::nullopt);
  EXPECT_TRUE(m.find_strings("none", 9).value().empty());
  EXPECT_EQ(describe(*m.find("strings"), 10), "3 x string");
  EXPECT_EQ(describe(*m.find("string"), 1), "\"a\"... (3 bytes)");
  EXPECT_EQ(describe(*m.find("f32"), 1), "0.5");
}

TEST(GgufMetadata, ErrorsNameKeyValueAndWhatIsWanted) {
  RawGguf raw;
  raw.metadata = every_value_type();
  const std::vector<std::byte> file = raw.bytes();
  const GgufMetadata m = parse_gguf(file).value().metadata;
  EXPECT_EQ(m.get_int("u32", 0, 9).status().message(),
            "metadata u32 is 4000000000 (u32); wanted an integer in [0, 9]");
  EXPECT_FALSE(m.get_int("none", 0, 9).is_ok());
  EXPECT_FALSE(m.find_int("f32", 0, 9).is_ok());
  EXPECT_FALSE(m.find_int("bool", 0, 9).is_ok());
  EXPECT_FALSE(m.find_number("string", 0, 9).is_ok());
  EXPECT_FALSE(m.find_number("f32s", -9, 9).is_ok());
  EXPECT_FALSE(m.find_bool("u32").is_ok());
  EXPECT_FALSE(m.find_string("strings").is_ok());
  EXPECT_FALSE(m.find_strings("strings", 2).is_ok());
  EXPECT_FALSE(m.find_strings("f32s", 9).is_ok());
  EXPECT_FALSE(m.find_numbers("strings", 9).is_ok());
}

}  // namespace
}  // namespace cairn
