#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/test_files.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

Result<SafetensorsLayout> parse(std::string_view bytes) {
  return parse_safetensors(as_bytes(bytes));
}

// A header with one good tensor "a" of two f32, and room for more entries.
std::string with_tensor(std::string_view entry) {
  return "{" + std::string(entry) + "}";
}

constexpr std::string_view kGood = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

TEST(Safetensors, ReadsNamesShapesPlacesAndMetadata) {
  const std::string header = R"({"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]},)"
                             R"("__metadata__":{"format":"pt","k":"v"},)"
                             R"("a":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"},)"
                             R"("s":{"dtype":"U8","shape":[],"data_offsets":[12,13]},)"
                             R"("empty":{"dtype":"I64","shape":[0,3],"data_offsets":[8,8]}}   )";
  const auto layout = parse(safetensors_bytes(header, 13));
  ASSERT_TRUE(layout.is_ok()) << layout.status().to_string();
  const uint64_t data = 8 + header.size();
  ASSERT_EQ(layout->tensors.size(), 4U);
  EXPECT_EQ(layout->tensors[0], (TensorInfo{"a", DType::kF32, {2}, data, 8}));
  EXPECT_EQ(layout->tensors[1], (TensorInfo{"empty", DType::kI64, {0, 3}, data + 8, 0}));
  EXPECT_EQ(layout->tensors[2], (TensorInfo{"b", DType::kBf16, {2, 1}, data + 8, 4}));
  EXPECT_EQ(layout->tensors[3], (TensorInfo{"s", DType::kU8, {}, data + 12, 1}));
  EXPECT_EQ(layout->metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"k", "v"}}));
}

TEST(Safetensors, ReadsEveryElementType) {
  const std::pair<std::string_view, DType> types[] = {{"F64", DType::kF64},
                                                      {"F32", DType::kF32},
                                                      {"F16", DType::kF16},
                                                      {"BF16", DType::kBf16},
                                                      {"I64", DType::kI64},
                                                      {"I32", DType::kI32},
                                                      {"I16", DType::kI16},
                                                      {"I8", DType::kI8},
                                                      {"U64", DType::kU64},
                                                      {"U32", DType::kU32},
                                                      {"U16", DType::kU16},
                                                      {"U8", DType::kU8},
                                                      {"BOOL", DType::kBool}};
  for (const auto& [name, dtype] : types) {
    const size_t n = dtype_bytes(dtype) * 3;
    const std::string header = R"({"t":{"dtype":")" + std::string(name) +
                               R"(","shape":[3],"data_offsets":[0,)" + std::to_string(n) + "]}}";
    const auto layout = parse(safetensors_bytes(header, n));
    ASSERT_TRUE(layout.is_ok()) << name << layout.status().to_string();
    EXPECT_EQ(layout->tensors[0].dtype, dtype);
  }
}

TEST(Safetensors, AcceptsAFileWithoutTensors) {
  EXPECT_TRUE(parse(safetensors_bytes("{}", 0)).is_ok());
  EXPECT_TRUE(parse(safetensors_bytes(R"({"__metadata__":{}})", 0)).is_ok());
}

struct Hostile {
  std::string_view what;
  std::string bytes;
  StatusCode code;
  std::string_view message;
};

std::string prefix_only(uint64_t n_header) {
  std::string file(8, '\0');
  store_le<uint64_t>(reinterpret_cast<std::byte*>(file.data()), n_header);
  return file;
}

// Headers as an attacker or a bad disk would leave them; every one must be refused by name.
std::vector<Hostile> hostile_files() {
  const auto bad = StatusCode::kCorruption;
  const auto tensor = [](std::string_view entry, size_t n_data) {
    return safetensors_bytes(with_tensor(entry), n_data);
  };
  const std::string good(kGood);
  return {
      {"empty", "", bad, "0 bytes"},
      {"seven bytes", std::string(7, 'x'), bad, "7 bytes"},
      {"length 2^64-1", prefix_only(~uint64_t{0}), bad, "header length 18446744073709551615"},
      {"length over the limit", prefix_only(100'000'001), bad, "at most 100000000"},
      {"length over the file", prefix_only(3) + "{}", bad, "only 2 bytes follow"},
      {"zero length", prefix_only(0), bad, "does not begin with '{'"},
      {"leading space", safetensors_bytes(" {}", 0), bad, "does not begin with '{'"},
      {"array", safetensors_bytes("[]", 0), bad, "does not begin with '{'"},
      {"cut JSON", safetensors_bytes("{\"a\":{", 0), bad, "bad JSON"},
      {"two values", safetensors_bytes("{}{}", 0), bad, "bad JSON"},
      {"not UTF-8", safetensors_bytes("{\"\xff\":1}", 0), bad, "bad JSON"},
      {"tensor is a number", tensor(R"("a":1)", 0), bad, "wanted an object"},
      {"tensor is a list", tensor(R"("a":[])", 0), bad, "wanted an object"},
      {"no dtype", tensor(R"("a":{"shape":[2],"data_offsets":[0,8]})", 8), bad, "lacks one of"},
      {"no shape", tensor(R"("a":{"dtype":"F32","data_offsets":[0,8]})", 8), bad, "lacks one of"},
      {"no offsets", tensor(R"("a":{"dtype":"F32","shape":[2]})", 8), bad, "lacks one of"},
      {"one offset",
       tensor(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[8]})", 8),
       bad,
       "data_offsets [8]"},
      {"three offsets",
       tensor(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})", 8),
       bad,
       "data_offsets"},
      {"offsets swapped",
       tensor(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]})", 8),
       bad,
       "data_offsets [8, 0]"},
      {"negative offset",
       tensor(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]})", 8),
       bad,
       "a negative number"},
      {"fraction",
       tensor(R"("a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})", 8),
       bad,
       "2.5"},
      {"negative dimension",
       tensor(R"("a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8),
       bad,
       "a negative number"},
      {"dimension over int64",
       tensor(R"("a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]})", 8),
       bad,
       "dimension 9223372036854775808"},
      {"product overflows",
       tensor(R"("a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0),
       bad,
       "more bytes than fit"},
      {"size differs",
       tensor(R"("a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8),
       bad,
       "takes 12 bytes"},
      {"dtype unknown",
       tensor(R"("a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]})", 8),
       StatusCode::kUnsupported,
       "F8_E4M3"},
      {"dtype is a number",
       tensor(R"("a":{"dtype":4,"shape":[2],"data_offsets":[0,8]})", 8),
       bad,
       "a number"},
      {"shape is a string",
       tensor(R"("a":{"dtype":"F32","shape":"2","data_offsets":[0,8]})", 8),
       bad,
       "a string"},
      {"shape nests",
       tensor(R"("a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]})", 8),
       bad,
       "nested deeper"},
      {"field twice",
       tensor(R"("a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]})", 8),
       bad,
       "given twice"},
      {"dtype twice",
       tensor(R"("a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8),
       bad,
       "given twice"},
      {"unknown field",
       tensor(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":"y"})", 8),
       bad,
       "wanted dtype, shape and data_offsets"},
      {"name twice", tensor(good + "," + good, 8), bad, "\"a\" is given twice"},
      {"overlap",
       tensor(good + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]})", 12),
       bad,
       "overlapping"},
      {"same bytes twice",
       tensor(good + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8),
       bad,
       "overlapping"},
      {"gap",
       tensor(good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]})", 16),
       bad,
       "gap"},
      {"gap in front",
       tensor(R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8),
       bad,
       "gap"},
      {"data cut", tensor(good, 7), bad, "truncated"},
      {"data too long", tensor(good, 9), bad, "9 data bytes, its tensors use 8"},
      {"end overflows",
       tensor(
           R"("a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]},)"
           R"("b":{"dtype":"U8","shape":[9223372036854775807],)"
           R"("data_offsets":[9223372036854775807,18446744073709551614]})",
           0),
       bad,
       "runs past"},
      {"metadata is a list", tensor(R"("__metadata__":[])", 0), bad, "wanted an object"},
      {"metadata holds a number", tensor(R"("__metadata__":{"a":1})", 0), bad, "wanted strings"},
      {"metadata holds an object", tensor(R"("__metadata__":{"a":{}})", 0), bad, "an object"},
      {"metadata key twice",
       tensor(R"("__metadata__":{"a":"1","a":"2"})", 0),
       bad,
       "gives \"a\" twice"},
      {"metadata twice",
       tensor(R"("__metadata__":{},"__metadata__":{})", 0),
       bad,
       "__metadata__ is given twice"},
  };
}

TEST(Safetensors, RefusesHostileFiles) {
  for (const Hostile& hostile : hostile_files()) {
    const auto layout = parse(hostile.bytes);
    ASSERT_FALSE(layout.is_ok()) << hostile.what;
    EXPECT_EQ(layout.status().code(), hostile.code) << hostile.what;
    EXPECT_THAT(layout.status().message(), HasSubstr(std::string(hostile.message))) << hostile.what;
  }
}

TEST(Safetensors, RefusesTooManyDimensions) {
  std::string ones = "1";
  for (int i = 1; i < 33; ++i) ones += ",1";
  const auto layout = parse(safetensors_bytes(
      R"({"a":{"dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1]}})", 1));
  EXPECT_EQ(layout.status().code(), StatusCode::kUnsupported);
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string bytes = safetensors_bytes(with_tensor(kGood), 8);
  ASSERT_TRUE(parse(bytes).is_ok());
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(parse(std::string_view(bytes).substr(0, n)).is_ok()) << n;
  }
}

TEST(Safetensors, MessagesEscapeAndCutNamesFromTheFile) {
  const std::string name = "\\u001b[31m" + std::string(1000, 'x');
  const auto layout = parse(safetensors_bytes(
      "{\"" + name + R"(":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8));
  ASSERT_FALSE(layout.is_ok());
  EXPECT_LT(layout.status().message().size(), 400U);
  EXPECT_EQ(layout.status().message().find('\x1b'), std::string::npos);
}

TEST(Safetensors, OpensAFileAndFindsTensorsByName) {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  // An odd header length puts the f32 at an odd place.
  std::string header = with_tensor(kGood);
  if ((8 + header.size()) % 2 == 0) header += ' ';
  write_text(path, safetensors_bytes(header, 8));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.is_ok()) << file.status().to_string();
  const auto view = file->tensor("a");
  ASSERT_TRUE(view.is_ok());
  EXPECT_EQ(view->dtype, DType::kF32);
  EXPECT_EQ(view->shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(to_text(*view), std::string("\0\1\2\3\4\5\6\7", 8));
  EXPECT_EQ(file->tensor("b").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(file->size_bytes(), 8 + header.size() + 8);
}

TEST(Safetensors, OpenNamesThePath) {
  const TempFolder folder;
  EXPECT_EQ(SafetensorsFile::open(folder / "none").status().code(), StatusCode::kNotFound);
  write_text(folder / "bad.safetensors", "short");
  const auto file = SafetensorsFile::open(folder / "bad.safetensors");
  EXPECT_EQ(file.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(file.status().message(), HasSubstr("bad.safetensors"));
}

TEST(Safetensors, ReadsFilesThatOthersWrote) {
  for (const char* name : {"llama", "llama-linear", "llama-yarn", "mistral", "qwen2", "qwen3"}) {
    for (const char* file_name : {"/model.safetensors", "/ref.safetensors"}) {
      const auto file = SafetensorsFile::open(oracle_folder(name) + file_name);
      ASSERT_TRUE(file.is_ok()) << file.status().to_string();
      EXPECT_GT(file->tensors().size(), 5U);
      for (const TensorInfo& tensor : file->tensors()) {
        const auto view = file->tensor(tensor.name);
        ASSERT_TRUE(view.is_ok()) << tensor.name;
        EXPECT_EQ(view->bytes.size(), tensor.n_bytes);
      }
    }
  }
  const auto llama = SafetensorsFile::open(oracle_folder("llama") + "/model.safetensors");
  const auto embedding = llama->tensor("model.embed_tokens.weight");
  ASSERT_TRUE(embedding.is_ok());
  EXPECT_EQ(embedding->shape, (std::vector<int64_t>{320, 64}));
  EXPECT_EQ(embedding->dtype, DType::kBf16);
}

TEST(Safetensors, TensorBytesCountsAndRefuses) {
  const std::vector<int64_t> shape = {3, 5};
  EXPECT_EQ(*tensor_bytes(DType::kF32, shape), 60U);
  EXPECT_EQ(*tensor_bytes(DType::kF32, {}), 4U);
  const std::vector<int64_t> negative = {-1};
  EXPECT_EQ(tensor_bytes(DType::kU8, negative).status().code(), StatusCode::kInvalidArgument);
  const std::vector<int64_t> huge = {int64_t{1} << 62, 4};
  EXPECT_EQ(tensor_bytes(DType::kF64, huge).status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace cairn
