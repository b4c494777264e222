#include <algorithm>

#include "system/hostile_files.h"
#include "system/hostile_writer.h"

namespace cairn::testing {
namespace {

const Words kInspectFile = {"inspect", "@/model.safetensors", "--json"};
const Words kInspect = {"inspect", "@"};
const Words kGenerate = {"generate-ids", "--model", "@", "--ids", "@/ids.json"};

// A header made of `piece`, numbered, after its front; no data.
void write_header(const std::string& folder,
                  uint64_t n_bytes,
                  uint64_t n_max,
                  std::string_view front,
                  std::string_view before_name,
                  std::string_view after_name,
                  std::string_view back) {
  HostileWriter file(folder + "/model.safetensors");
  file.number<uint64_t>(0).text("{").text(front);
  for (uint64_t i = 0; file.size() < n_bytes && i < n_max; ++i) {
    if (i > 0) file.text(",");
    file.text(before_name).text(letters(i)).text(after_name);
  }
  file.text(back).text("}");
  file.patch(0, file.size() - 8);
}

HostileCase header_case(const std::string& name,
                        uint64_t n_max,
                        std::string_view front,
                        std::string_view before_name,
                        std::string_view after_name,
                        std::string_view back) {
  return {name,
          [=](const std::string& folder, uint64_t n_bytes) {
            write_header(folder,
                         std::min<uint64_t>(n_bytes, 99'000'000),
                         n_max,
                         front,
                         before_name,
                         after_name,
                         back);
          },
          {kInspectFile}};
}

HostileCase file_case(const std::string& name,
                      const std::string& file_name,
                      std::string_view front,
                      std::string_view piece,
                      std::string_view back,
                      uint64_t n_bytes_max = ~uint64_t{0}) {
  return {name,
          [=](const std::string& folder, uint64_t n_bytes) {
            // A model to which the file belongs.
            HostileWriter model(folder + "/model.safetensors");
            model.number<uint64_t>(2).text("{}");
            if (file_name != "config.json") {
              HostileWriter(folder + "/config.json").text(R"({"model_type":"llama"})");
            }
            HostileWriter file(folder + "/" + file_name);
            file.text(front);
            while (file.size() + back.size() < std::min(n_bytes, n_bytes_max)) file.text(piece);
            file.text(back);
          },
          {kInspect, kGenerate}};
}

void write_index(const std::string& folder, uint64_t n_bytes, uint64_t n_max) {
  HostileWriter file(folder + "/model.safetensors.index.json");
  file.text(R"({"weight_map":{"a":"b")");
  for (uint64_t i = 1; file.size() < n_bytes && i < n_max; ++i) {
    file.text(",\"" + letters(i) + "\":\"b\"");
  }
  file.text("}}");
}

// Many keys, in a configuration that is small enough to be read.
void write_members(const std::string& folder, uint64_t n_bytes) {
  HostileWriter(folder + "/model.safetensors").number<uint64_t>(2).text("{}");
  HostileWriter file(folder + "/config.json");
  file.text(R"({"model_type":"llama")");
  for (uint64_t i = 0; file.size() < std::min<uint64_t>(n_bytes, 2'000'000); ++i) {
    file.text(",\"" + letters(i) + "\":{}");
  }
  file.text("}");
}

}  // namespace

std::vector<HostileCase> hostile_safetensors() {
  constexpr uint64_t kAll = ~uint64_t{0};
  constexpr std::string_view kEmptyTensor = R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const std::string long_name(3000, 'n');
  return {
      header_case("tensors", kAll, "", "\"", kEmptyTensor, ""),
      header_case("most tensors", 524'000, "", "\"", kEmptyTensor, ""),
      {"long names",
       [=](const std::string& folder, uint64_t n_bytes) {
         write_header(folder,
                      std::min<uint64_t>(n_bytes, 99'000'000),
                      kAll,
                      "",
                      "\"" + long_name,
                      kEmptyTensor,
                      "");
       },
       {kInspectFile}},
      header_case("notes", kAll, R"("__metadata__":{)", "\"", R"(":"")", "}"),
      header_case("one name", kAll, "\"", "abcdefghijklmnop", "", "\":0"),
      {"index", [](auto& at, uint64_t n) { write_index(at, n, kAll); }, {kInspect}},
      {"most indexed", [](auto& at, uint64_t n) { write_index(at, n, 524'000); }, {kInspect}},
      file_case("config", "config.json", R"({"model_type":"llama","x":[0)", ",{}", "]}"),
      file_case(
          "small config", "config.json", R"({"model_type":"llama","x":[0)", ",{}", "]}", 2'000'000),
      {"members of a config", write_members, {kInspect, kGenerate}},
      file_case("generation config",
                "generation_config.json",
                R"({"eos_token_id":[0)",
                ",0",
                "]}",
                2'000'000),
  };
}

}  // namespace cairn::testing
