#include <algorithm>

#include "system/hostile_files.h"
#include "system/hostile_writer.h"

namespace cairn::testing {
namespace {

const Words kTokenize = {"tokenize", "--model", "@", "--text", "ab ba <a> abab", "--json"};

// --- tokenizer.json ---

// A whole file around one part; `write` adds that part's members.
class TokenizerJson {
 public:
  explicit TokenizerJson(const std::string& folder) : file_(folder + "/tokenizer.json") {}

  HostileWriter& file() { return file_; }

  void begin() { file_.text(R"({"version":"1.0","normalizer":null,)"); }

  void byte_level() {
    file_.text(R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
               R"("decoder":{"type":"ByteLevel"},)");
  }

  void small_model() {
    file_.text(R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})");
  }

 private:
  HostileWriter file_;
};

void write_vocabulary(const std::string& folder, uint64_t n_bytes, uint64_t n_max) {
  TokenizerJson json(folder);
  json.begin();
  json.byte_level();
  HostileWriter& file = json.file().text(R"("model":{"type":"BPE","vocab":{"a":0)");
  for (uint64_t i = 1; file.size() < n_bytes && i < n_max; ++i) {
    file.text(",\"" + letters(i) + "\":" + std::to_string(i));
  }
  file.text(R"(},"merges":[]}})");
}

void write_merges(const std::string& folder, uint64_t n_bytes, uint64_t n_max, bool as_pairs) {
  TokenizerJson json(folder);
  json.begin();
  json.byte_level();
  HostileWriter& file =
      json.file().text(R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b")");
  for (uint64_t i = 1; file.size() < n_bytes && i < n_max; ++i) {
    file.text(as_pairs ? R"(,["a","b"])" : R"(,"a b")");
  }
  file.text("]}}");
}

void write_added_tokens(const std::string& folder, uint64_t n_bytes, uint64_t n_max) {
  TokenizerJson json(folder);
  json.begin();
  json.byte_level();
  HostileWriter& file = json.file().text(R"("added_tokens":[{"id":3,"content":"<a>"})");
  for (uint64_t i = 4; file.size() < n_bytes && i < n_max; ++i) {
    file.text(R"(,{"id":)" + std::to_string(i) + R"(,"content":"<)" + letters(i) + R"("})");
  }
  file.text("],");
  json.small_model();
}

// Numbers for letters, so that no token is a prefix of many: the widest trie.
void write_unigram(const std::string& folder, uint64_t n_bytes, uint64_t n_max) {
  TokenizerJson json(folder);
  json.begin();
  HostileWriter& file =
      json.file().text(R"("pre_tokenizer":{"type":"Metaspace","replacement":"_"},)"
                       R"("decoder":{"type":"Metaspace","replacement":"_"},)"
                       R"("model":{"type":"Unigram","unk_id":0,"vocab":[["?",0])");
  for (uint64_t i = 1; file.size() < n_bytes && i < n_max; ++i) {
    file.text(",[\"" + letters(i) + "\",-1]");
  }
  file.text("]}}");
}

// `front`, then `piece` again and again, then `back`, where `part` belongs.
void write_part(const std::string& folder,
                uint64_t n_bytes,
                std::string_view front,
                std::string_view piece,
                std::string_view back) {
  TokenizerJson json(folder);
  HostileWriter& file = json.file().text("{").text(front);
  while (file.size() < n_bytes) file.text(piece);
  file.text(back).text(",");
  json.byte_level();
  json.small_model();
}

void write_deep(const std::string& folder, uint64_t n_bytes) {
  TokenizerJson json(folder);
  json.file().text(R"({"normalizer":)").fill('[', n_bytes / 2).fill(']', n_bytes / 2);
  json.file().text(",");
  json.byte_level();
  json.small_model();
}

HostileCase part_case(const std::string& name,
                      std::string_view front,
                      std::string_view piece,
                      std::string_view back) {
  return {name,
          [=](const std::string& folder, uint64_t n_bytes) {
            write_part(folder, n_bytes, front, piece, back);
          },
          {kTokenize}};
}

std::vector<HostileCase> tokenizer_parts() {
  return {
      part_case("normalizers",
                R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"})",
                R"(,{"type":"NFC"})",
                "]}"),
      part_case("nested normalizers",
                R"("normalizer":{"type":"Sequence","normalizers":[)",
                R"({"type":"Sequence","normalizers":[]},)",
                R"({"type":"NFC"}]})"),
      part_case("splits",
                R"("x":{"type":"Sequence","pretokenizers":[1],"y":[0)",
                R"(,{"type":"Split","pattern":{"Regex":"a"},"behavior":"Isolated"})",
                "]}"),
      part_case("many splits",
                R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"})",
                R"(,{"type":"Split","pattern":{"Regex":"a"},"behavior":"Isolated"})",
                "]}"),
      part_case("long regex",
                R"("pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"a)",
                "(b|c)*",
                R"("}})"),
      part_case("long string", R"("x":"a)", "0123456789", "\""),
      part_case("long escaped string", R"("normalizer":{"type":")", R"(\u0041\n)", "\"}"),
      part_case("long number", R"("x":1)", "0123456789", ""),
      part_case("repeated keys", R"("x":0)", R"(,"x":0)", ""),
      part_case("character map",
                R"("normalizer":{"type":"Precompiled","precompiled_charsmap":")",
                "AAAA",
                "\"}"),
      part_case("post-processor",
                R"("post_processor":{"type":"TemplateProcessing","special_tokens":)"
                R"({"a":{"ids":[0]}},"single":[{"Sequence":{}})",
                R"(,{"SpecialToken":{"id":"a"}})",
                "]}"),
  };
}

// --- SentencePiece ---

class PieceModel {
 public:
  // Model types: 1 unigram, 2 BPE.
  PieceModel(const std::string& folder, uint64_t kind) : file_(folder + "/tokenizer.model") {
    piece("<unk>", 2);
    message(2, std::string{'\x18', static_cast<char>(kind)});
  }

  uint64_t size() const { return file_.size(); }

  // Types: 1 normal, 2 unknown, 4 user-defined.
  void piece(std::string_view text, uint64_t type) {
    std::string bytes = "\x0A";
    bytes += static_cast<char>(text.size());  // texts here have fewer than 128 bytes
    bytes += text;
    bytes += '\x18';
    bytes += static_cast<char>(type);
    message(1, bytes);
  }

  void message(uint64_t number, std::string_view bytes) {
    file_.varint(number << 3U | 2U).varint(bytes.size()).text(bytes);
  }

  void long_piece(uint64_t n_bytes) {
    file_.varint(1U << 3U | 2U).varint(n_bytes + 5).text("\x0A").varint(n_bytes);
    file_.fill('p', n_bytes);
  }

  // The normaliser's character map.
  void character_map(uint64_t n_bytes) {
    file_.varint(3U << 3U | 2U).varint(n_bytes + 6).text("\x12").varint(n_bytes);
    file_.number(static_cast<uint32_t>(n_bytes - 4) & ~3U).fill('\0', n_bytes - 4);
  }

 private:
  HostileWriter file_;
};

void write_pieces(const std::string& folder, uint64_t n_bytes, uint64_t kind, uint64_t type) {
  PieceModel model(folder, kind);
  for (uint64_t i = 0; model.size() < n_bytes && i < 1'000'000; ++i) model.piece(letters(i), type);
}

// Every word of two letters: each can be cut at every place.
void write_pairs(const std::string& folder, uint64_t n_bytes) {
  PieceModel model(folder, 2);
  for (uint64_t length = 1; length < 20; ++length) {
    for (uint64_t word = 0; word < uint64_t{1} << length && model.size() < n_bytes; ++word) {
      std::string text;
      for (uint64_t i = 0; i < length; ++i) text += (word >> i & 1U) != 0 ? 'a' : 'b';
      model.piece(text, 1);
    }
  }
}

std::vector<HostileCase> piece_models() {
  const auto pieces = [](uint64_t kind, uint64_t type) {
    return [=](const std::string& folder, uint64_t n) { write_pieces(folder, n, kind, type); };
  };
  return {
      {"pieces of BPE", pieces(2, 1), {kTokenize}},
      {"pieces of unigram", pieces(1, 1), {kTokenize}},
      {"user-defined pieces", pieces(1, 4), {kTokenize}},
      {"user-defined pieces of BPE", pieces(2, 4), {kTokenize}},
      {"pairs", write_pairs, {kTokenize}},
      {"long piece",
       [](const std::string& folder, uint64_t n) { PieceModel(folder, 2).long_piece(n); },
       {kTokenize}},
      {"map of pieces",
       [](const std::string& folder, uint64_t n) { PieceModel(folder, 1).character_map(n); },
       {kTokenize}},
  };
}

// --- templates ---

const Words kTemplate = {"template", "--model", "@", "--messages", "@/messages.json"};

HostileCase template_case(const std::string& name,
                          std::string_view front,
                          std::string_view piece,
                          std::string_view back) {
  return {name,
          [=](const std::string& folder, uint64_t n_bytes) {
            HostileWriter file(folder + "/chat_template.jinja");
            file.text(front);
            while (file.size() + back.size() < n_bytes) file.text(piece);
            file.text(back);
          },
          {kTemplate}};
}

HostileCase config_case(const std::string& name,
                        std::string_view front,
                        std::string_view piece,
                        std::string_view back) {
  return {name,
          [=](const std::string& folder, uint64_t n_bytes) {
            HostileWriter file(folder + "/tokenizer_config.json");
            file.text(front);
            while (file.size() < n_bytes) file.text(piece);
            file.text(back);
          },
          {kTemplate}};
}

}  // namespace

std::vector<HostileCase> hostile_tokenizers() {
  constexpr uint64_t kAll = ~uint64_t{0};
  constexpr uint64_t kMost = 1'048'000;
  constexpr uint64_t kMostUnigram = 524'000;
  constexpr uint64_t kMostAdded = 131'000;
  std::vector<HostileCase> cases = {
      {"vocabulary", [](auto& at, uint64_t n) { write_vocabulary(at, n, kAll); }, {kTokenize}},
      {"most vocabulary",
       [](auto& at, uint64_t n) { write_vocabulary(at, n, kMost); },
       {kTokenize}},
      {"merges", [](auto& at, uint64_t n) { write_merges(at, n, kAll, false); }, {kTokenize}},
      {"most merges", [](auto& at, uint64_t n) { write_merges(at, n, kMost, false); }, {kTokenize}},
      {"pairs of merges",
       [](auto& at, uint64_t n) { write_merges(at, n, kMost, true); },
       {kTokenize}},
      {"added tokens", [](auto& at, uint64_t n) { write_added_tokens(at, n, kAll); }, {kTokenize}},
      {"most added tokens",
       [](auto& at, uint64_t n) { write_added_tokens(at, n, kMostAdded); },
       {kTokenize}},
      {"unigram", [](auto& at, uint64_t n) { write_unigram(at, n, kAll); }, {kTokenize}},
      {"most unigram",
       [](auto& at, uint64_t n) { write_unigram(at, n, kMostUnigram); },
       {kTokenize}},
      {"deep JSON", write_deep, {kTokenize}},
  };
  for (auto& more : {tokenizer_parts(), piece_models()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

std::vector<HostileCase> hostile_templates() {
  return {
      template_case("text", "", "0123456789abcdef", ""),
      template_case("statements", "", "{% if a %}{% endif %}", ""),
      template_case("nested statements", "", "{% if a %}", ""),
      template_case("long list", "{{ [0", ",0", "] | length }}"),
      template_case("long sum", "{{ 0", "+0", " }}"),
      template_case("nested parentheses", "{{ ", "(", "0 }}"),
      template_case("names", "", "{{ a.b.c }}", ""),
      template_case("long string", "{{ 'a", "0123456789abcdef", "' | length }}"),
      template_case("macros", "", "{% macro m(a) %}{{ a }}{% endmacro %}", ""),
      template_case("comments", "", "{# #}", ""),
      config_case("template in a configuration", R"({"chat_template":"a)", "0123456789", "\"}"),
      config_case("escaped template", R"({"chat_template":"a)", R"(\u007b)", "\"}"),
      config_case("named templates",
                  R"({"chat_template":[{"name":"default","template":"a"})",
                  R"(,{"name":"b","template":"c"})",
                  "]}"),
      config_case("added tokens of a configuration",
                  R"({"chat_template":"a","added_tokens_decoder":{"0":0)",
                  R"(,"1":{"content":"<a>"})",
                  "}}"),
      config_case("deep configuration", R"({"chat_template":"a","x":[)", "[", ""),
      config_case("long token", R"({"chat_template":"a","bos_token":")", "0123456789", "\"}"),
      config_case("values of a configuration", R"({"chat_template":"a","x":[0)", ",{}", "]}"),
  };
}

std::vector<HostileCase> hostile_small_templates() {
  std::vector<HostileCase> cases;
  const std::pair<const char*, const char*> sources[] = {
      {"product", "{{ 'a' * 10**9 }}"},
      {"list product", "{{ ([0] * 10**9) | length }}"},
      {"doubling",
       "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}"
       "{% endfor %}{{ ns.s | length }}"},
      {"doubled list",
       "{% set ns = namespace(s=[0, 1, 2, 3]) %}{% for i in range(60) %}"
       "{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s | length }}"},
      {"nested list",
       "{% set ns = namespace(s=[]) %}{% for i in range(100000) %}{% set ns.s = [ns.s, ns.s] %}"
       "{% endfor %}{{ ns.s }}"},
      {"loops",
       "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}"
       "{% endfor %}{% endfor %}{% endfor %}"},
      {"output",
       "{% for a in range(100000) %}{% for b in range(100000) %}aaaaaaaaaaaaaaaa"
       "{% endfor %}{% endfor %}"},
      {"replace", "{% set a = 'a' * 100000 %}{{ a.replace('a', a) | length }}"},
      {"join", "{{ ('a' * 100000).join(range(100000) | map('string')) | length }}"},
      {"split", "{{ ('a ' * 4000000).split() | length }}"},
      {"characters", "{{ ('a' * 8000000) | list | length }}"},
      {"indent", "{{ ('a\n' * 1000000) | indent(1000) | length }}"},
      {"lines", "{{ ('\n' * 8000000).splitlines() | length }}"},
      {"case", "{{ ('a' * 8000000) | upper | lower | title | length }}"},
      {"json",
       "{% set ns = namespace(s='\\n' * 1000) %}{% for i in range(12) %}"
       "{% set ns.s = ns.s | tojson %}{% endfor %}{{ ns.s | length }}"},
      {"sort", "{% for i in range(1000) %}{% set a = range(100000) | sort %}{% endfor %}"},
      {"unique", "{{ range(100000) | unique | list | length }}"},
      {"padding", "{{ 'a'.center(10**12) }}"},
      {"recursion", "{% macro m(a) %}{{ m(a) }}{{ m(a) }}{% endmacro %}{{ m(1) }}"},
      {"deep calls", "{% macro m(a) %}{{ m(a + 1) if a < 300 }}{% endmacro %}{{ m(1) }}"},
      {"macros kept",
       "{% set ns = namespace(s=[]) %}{% for i in range(100000) %}"
       "{% macro m() %}{% endmacro %}{% set ns.s = [ns.s, m] %}{% endfor %}"},
      {"names",
       "{% set ns = namespace() %}{% for i in range(100000) %}{% for j in range(100000) %}"
       "{% set ns.a = [i] * 1000 %}{% endfor %}{% endfor %}"},
  };
  for (const auto& [name, source] : sources) {
    const std::string text = source;
    cases.push_back({name,
                     [text](const std::string& folder, uint64_t) {
                       HostileWriter(folder + "/chat_template.jinja").text(text);
                     },
                     {kTemplate}});
  }
  return cases;
}

}  // namespace cairn::testing
