// json.dumps as Python 3.11 writes it: the spelling that models were trained on.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/utf8.h"

namespace cairn::jinja {

namespace {

class Writer {
 public:
  Writer(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void write(const Value& value) {
    budget_.spend();
    const size_t before = out_.size();
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        break;
      case Kind::kBool:
        out_ += value.boolean() ? "true" : "false";
        break;
      case Kind::kInt:
        out_ += std::to_string(value.integer());
        break;
      case Kind::kBigInt:
        out_ += std::to_string(value.big_integer());
        break;
      case Kind::kFloat:
        out_ += number(value.number());
        break;
      case Kind::kString:
        write_string(value.string());
        break;
      case Kind::kList:
        return write_list(value.items());
      case Kind::kDict:
        return write_dict(value.dict());
      default:
        fail(
            fmt::format("TypeError: Object of type {} is not JSON serializable", type_name(value)));
    }
    budget_.spend_text(out_.size() - before);
    budget_.check(out_.size());
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }

  void write_escaped_code(char32_t code) {
    if (code >= 0x10000) {
      code -= 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}",
                          0xD800U + static_cast<uint32_t>(code >> 10U),
                          0xDC00U + static_cast<uint32_t>(code & 0x3FFU));
    } else {
      out_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    }
  }

  void write_string(std::string_view text) {
    out_ += '"';
    for (size_t pos = 0; pos < text.size();) {
      const utf8::Decoded c = utf8::decode(text.substr(pos));
      const std::string_view raw = text.substr(pos, c.n_bytes);
      pos += c.n_bytes;
      constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
      constexpr std::string_view kLetters = "\"\\bfnrt";
      const size_t at = c.code < 0x80 ? kShort.find(raw[0]) : std::string_view::npos;
      if (at != std::string_view::npos) {
        out_ += '\\';
        out_ += kLetters[at];
      } else if (c.code < 0x20 || (style_.ascii_only && c.code > 0x7E)) {
        write_escaped_code(c.code);
      } else {
        out_ += raw;
      }
    }
    out_ += '"';
  }

  // Before text of the template's choosing is added.
  void grow(size_t n_bytes) {
    budget_.spend_text(n_bytes);
    budget_.check(out_.size() + n_bytes);
  }

  void new_line() {
    if (!style_.indent) return;
    grow(level_ * style_.indent->size());
    out_ += '\n';
    for (size_t i = 0; i < level_; ++i) out_ += *style_.indent;
  }

  template <typename Items, typename WriteItem>
  void write_container(char open, char close, const Items& items, const WriteItem& write_item) {
    out_ += open;
    if (!items.empty()) {
      ++level_;
      bool is_first = true;
      for (const auto& item : items) {
        grow(style_.item_separator.size());
        if (!is_first) out_ += style_.item_separator;
        is_first = false;
        new_line();
        write_item(item);
      }
      --level_;
      new_line();
    }
    out_ += close;
  }

  void write_list(const std::vector<Value>& items) {
    write_container('[', ']', items, [this](const Value& item) { write(item); });
  }

  void write_dict(const Dict& dict) {
    const auto write_item = [this](const std::pair<Value, Value>* item) {
      write_key(item->first);
      grow(style_.key_separator.size());
      out_ += style_.key_separator;
      write(item->second);
    };
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sorts_keys) {
      std::stable_sort(items.begin(), items.end(), [this](const auto* a, const auto* b) {
        return less(a->first, b->first, budget_);
      });
    }
    write_container('{', '}', items, write_item);
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write(key);
    if (!key.is_number() && !key.is_none()) {
      fail(fmt::format("TypeError: keys must be str, int, float, bool or None, not {}",
                       type_name(key)));
    }
    out_ += '"';
    write(key);
    out_ += '"';
  }

  JsonStyle style_;
  Budget& budget_;
  std::string out_;
  size_t level_ = 0;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer writer(style, budget);
  writer.write(value);
  return writer.take();
}

}  // namespace cairn::jinja
