// The layering of DESIGN section 2, checked on every #include: a folder may include only from
// itself and from folders to its left. A layering that is only written down does not last.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Left to right. server and cli share the last place: cli starts the server.
const std::vector<std::string> kLayers = {"base",
                                          "tensor",
                                          "formats",
                                          "kernels",
                                          "cache",
                                          "store",
                                          "model",
                                          "text",
                                          "grammar",
                                          "engine",
                                          "api",
                                          "hub",
                                          "server",
                                          "cli"};

// A third-party header belongs to one layer, behind our own type.
const std::map<std::string, std::set<std::string>> kOwners = {
    {"boost/", {"server"}},
    {"liburing.h", {"base"}},
    {"hwy/", {"kernels"}},
    {"immintrin.h", {"base", "kernels"}},
    {"openssl/", {"base", "server"}},
    {"spdlog/", {"base"}},
    {"xxhash.h", {"base"}},
    {"prometheus/", {"server"}},
    {"CLI/", {"cli"}},
    {"curl/", {"hub"}},
    {"pcre2.h", {"text"}},
    {"utf8proc.h", {"text"}},
};

struct Include {
  std::string file;
  std::string layer;
  std::string target;
};

std::vector<Include> all_includes() {
  std::vector<Include> includes;
  const fs::path src = fs::path(CAIRN_SOURCE_DIR) / "src";
  const std::regex pattern(R"(^\s*#\s*include\s*["<]([^">]+)[">])");
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    const auto extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    const fs::path relative = fs::relative(entry.path(), src);
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      std::smatch match;
      if (std::regex_search(line, match, pattern)) {
        includes.push_back({relative.string(), relative.begin()->string(), match[1].str()});
      }
    }
  }
  return includes;
}

size_t rank(const std::string& layer) {
  return static_cast<size_t>(std::find(kLayers.begin(), kLayers.end(), layer) - kLayers.begin());
}

TEST(Layers, EveryFolderIsALayer) {
  for (const auto& entry : fs::directory_iterator(fs::path(CAIRN_SOURCE_DIR) / "src")) {
    EXPECT_LT(rank(entry.path().filename().string()), kLayers.size()) << entry.path();
  }
}

TEST(Layers, IncludesPointLeft) {
  const auto includes = all_includes();
  ASSERT_GT(includes.size(), 100U);
  for (const Include& include : includes) {
    const size_t slash = include.target.find('/');
    if (slash == std::string::npos) continue;
    const size_t target = rank(include.target.substr(0, slash));
    if (target == kLayers.size()) continue;
    EXPECT_LE(target, rank(include.layer)) << include.file << " includes " << include.target;
  }
}

// It stands late in the order, but a download client has no use for an engine.
TEST(Layers, HubKnowsBaseAlone) {
  size_t n_checked = 0;
  for (const Include& include : all_includes()) {
    const std::string target = include.target.substr(0, include.target.find('/'));
    if (include.layer != "hub" || rank(target) == kLayers.size()) continue;
    EXPECT_TRUE(target == "base" || target == "hub")
        << include.file << " includes " << include.target;
    ++n_checked;
  }
  EXPECT_GT(n_checked, 10U);
}

TEST(Layers, ThirdPartyHeadersHaveOneHome) {
  for (const Include& include : all_includes()) {
    for (const auto& [prefix, owners] : kOwners) {
      if (include.target.rfind(prefix, 0) != 0) continue;
      EXPECT_TRUE(owners.contains(include.layer)) << include.file << " includes " << include.target;
    }
  }
}

TEST(Layers, EnvironmentIsReadInOnePlace) {
  const fs::path src = fs::path(CAIRN_SOURCE_DIR) / "src";
  const std::regex pattern(R"(\b(secure_)?getenv\s*\()");
  for (const auto& entry : fs::recursive_directory_iterator(src)) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    if (fs::relative(entry.path(), src) == fs::path("base/options.cc")) continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      EXPECT_FALSE(std::regex_search(line, pattern)) << entry.path() << ": " << line;
    }
  }
}

// Two types of one name in one program are undefined behaviour that no tool has to report: an
// inline function of one takes the place of the other's.
TEST(Layers, TypesOfHeadersHaveNamesOfTheirOwn) {
  const std::regex scope(R"(^namespace ([\w:]+) \{)");
  const std::regex type(
      R"(^(?:struct|class|enum class) (?:CAIRN_\w+\(.*\) )?(\w+)(?: final)?(?: :.*)? \{)");
  std::map<std::string, std::string> homes;  // qualified name -> header
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(CAIRN_SOURCE_DIR) / "src")) {
    if (entry.path().extension() != ".h") continue;
    std::string inside;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      std::smatch match;
      if (std::regex_search(line, match, scope)) inside = match[1].str();
      if (!std::regex_search(line, match, type)) continue;
      const std::string name = inside + "::" + match[1].str();
      const auto [home, is_new] = homes.emplace(name, entry.path().string());
      EXPECT_TRUE(is_new) << name << " is in " << home->second << " and in " << entry.path();
    }
  }
  EXPECT_GT(homes.size(), 200U);
}

}  // namespace
