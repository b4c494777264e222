#include "hub/gguf_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace cairn {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::string_view kPartEnding = "-00000-of-00000.gguf";
constexpr size_t kPartDigits = 5;
constexpr size_t kPartsMax = 4096;
constexpr size_t kListedMax = 40;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

std::string in_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

bool is_alphanumeric(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9');
}

struct PartNumber {
  std::string stem;
  size_t number = 0;
  size_t count = 0;
};

std::string part_path(std::string_view stem, size_t number, size_t count) {
  return fmt::format("{}-{:05}-of-{:05}{}", stem, number, count, kEnding);
}

// "x-00002-of-00003.gguf"; a count that no model has is part of a name.
std::optional<PartNumber> part_number(std::string_view path) {
  if (path.size() <= kPartEnding.size()) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kPartEnding.size());
  PartNumber part{std::string(path.substr(0, path.size() - kPartEnding.size()))};
  const char* const number = tail.data() + 1;
  const char* const count = number + kPartDigits + 4;  // past "-of-"
  std::from_chars(number, number + kPartDigits, part.number);
  std::from_chars(count, count + kPartDigits, part.count);
  const bool in_range = part.number > 0 && part.number <= part.count && part.count <= kPartsMax;
  // Written back, because from_chars stops at the first odd character.
  if (!in_range || path != part_path(part.stem, part.number, part.count)) return std::nullopt;
  return part;
}

bool is_model(std::string_view path) {
  const std::string name = in_lower(path.substr(path.rfind('/') + 1));
  return name.ends_with(kEnding) && name.size() > kEnding.size() && !name.starts_with("mmproj") &&
         name.find("imatrix") == std::string::npos;
}

std::string listed(std::span<const GgufChoice> choices) {
  std::string text;
  for (const GgufChoice& choice : choices.first(std::min(choices.size(), kListedMax))) {
    text += "\n  " + choice.name();
    if (choice.n_parts > 1) text += fmt::format(" (and {} parts more)", choice.n_parts - 1);
  }
  if (choices.size() > kListedMax) {
    text += fmt::format("\n  and {} more", choices.size() - kListedMax);
  }
  return text;
}

Status no_choice(std::string_view repo_id,
                 std::string_view quant,
                 std::span<const GgufChoice> choices) {
  if (choices.empty()) {
    return Status::not_found(fmt::format(
        "{} has no GGUF file{}", repo_id, quant.empty() ? "" : fmt::format(", so no {}", quant)));
  }
  return Status::not_found(fmt::format(
      "{} has no GGUF whose name carries {}; it has:{}", repo_id, quant, listed(choices)));
}

}  // namespace

std::vector<GgufChoice> gguf_choices(std::span<const std::string> paths) {
  std::map<std::string, GgufChoice> whole;
  std::map<std::pair<std::string, size_t>, std::set<std::string>> in_parts;
  for (const std::string& path : paths) {
    if (!is_model(path)) continue;
    const auto part = part_number(path);
    if (part) {
      in_parts[{part->stem, part->count}].insert(path);
    } else {
      whole.emplace(path, GgufChoice{{path}, 1});
    }
  }
  for (const auto& [key, parts] : in_parts) {
    whole.emplace(*parts.begin(), GgufChoice{{parts.begin(), parts.end()}, key.second});
  }
  std::vector<GgufChoice> choices;
  for (auto& [name, choice] : whole) choices.push_back(std::move(choice));
  return choices;
}

bool carries_quant(std::string_view path, std::string_view quant) {
  const std::string text = in_lower(path);
  const std::string word = in_lower(quant);
  if (word.empty()) return false;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !is_alphanumeric(text[at - 1]);
    const bool ends = end == text.size() || (!is_alphanumeric(text[end]) && text[end] != '_');
    if (begins && ends) return true;
  }
  return false;
}

Result<GgufChoice> choose_gguf(std::span<const GgufChoice> choices,
                               std::string_view quant,
                               std::string_view repo_id) {
  if (quant.empty() && choices.size() == 1) return choices.front();
  std::vector<GgufChoice> fitting;
  for (const GgufChoice& choice : choices) {
    if (carries_quant(choice.name(), quant.empty() ? kDefaultQuant : quant)) {
      fitting.push_back(choice);
    }
  }
  if (fitting.size() == 1) return fitting.front();
  if (fitting.empty() && (!quant.empty() || choices.empty())) {
    return no_choice(repo_id, quant, choices);
  }
  return Status::invalid_argument(fmt::format(
      "{} has {} GGUF models{}; name one, as in {}/{}, or its type, as in {}:Q8_0:{}",
      repo_id,
      fitting.empty() ? choices.size() : fitting.size(),
      fitting.empty() ? "" : fmt::format(" of type {}", quant.empty() ? kDefaultQuant : quant),
      repo_id,
      fitting.empty() ? choices.front().name() : fitting.front().name(),
      repo_id,
      listed(fitting.empty() ? choices : std::span<const GgufChoice>(fitting))));
}

Result<GgufChoice> find_gguf(std::span<const GgufChoice> choices,
                             std::string_view file,
                             std::string_view repo_id) {
  for (const GgufChoice& choice : choices) {
    if (std::ranges::find(choice.parts, file) != choice.parts.end()) return choice;
  }
  return Status::not_found(
      fmt::format("{} has no model file \"{}\"; it has:{}", repo_id, file, listed(choices)));
}

}  // namespace cairn
