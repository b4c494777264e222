#include "formats/json_stream.h"

#include <fmt/format.h>

#include <string>

#include "base/json.h"

namespace cairn {
namespace {

// Translates the library's events into ours and keeps the first error.
class Adapter final : public nlohmann::json_sax<Json> {
 public:
  Adapter(JsonVisitor& visitor, int max_depth) : visitor_(visitor), max_depth_(max_depth) {}

  bool null() override { return keep(visitor_.on_other("null")); }

  bool boolean(bool value) override { return keep(visitor_.on_other(value ? "true" : "false")); }

  bool number_integer(number_integer_t) override {
    return keep(visitor_.on_other("a negative number"));
  }

  bool number_unsigned(number_unsigned_t value) override {
    return keep(visitor_.on_unsigned(value));
  }

  bool number_float(number_float_t, const string_t& text) override {
    return keep(visitor_.on_other(text));
  }

  bool string(string_t& text) override { return keep(visitor_.on_string(text)); }

  bool binary(binary_t&) override { return keep(visitor_.on_other("binary")); }

  bool key(string_t& text) override { return keep(visitor_.on_key(text)); }

  bool start_object(size_t) override { return enter() && keep(visitor_.on_begin_object()); }

  bool end_object() override { return leave() && keep(visitor_.on_end_object()); }

  bool start_array(size_t) override { return enter() && keep(visitor_.on_begin_array()); }

  bool end_array() override { return leave() && keep(visitor_.on_end_array()); }

  bool parse_error(size_t offset, const std::string&, const nlohmann::detail::exception&) override {
    return keep(Status::corruption(fmt::format("bad JSON at byte {}", offset)));
  }

  Status take() { return std::move(status_); }

 private:
  bool keep(Status status) {
    status_ = std::move(status);
    return status_.is_ok();
  }

  bool enter() {
    if (++depth_ <= max_depth_) return true;
    return keep(Status::corruption(fmt::format("JSON nested deeper than {}", max_depth_)));
  }

  bool leave() {
    --depth_;
    return true;
  }

  JsonVisitor& visitor_;
  const int max_depth_;
  int depth_ = 0;
  Status status_;
};

}  // namespace

Status walk_json(std::string_view text, int max_depth, JsonVisitor& visitor) {
  Adapter adapter(visitor, max_depth);
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &adapter);
  Status status = adapter.take();
  if (!parsed && status.is_ok()) return Status::corruption("bad JSON");
  return status;
}

}  // namespace cairn
