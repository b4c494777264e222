#include "formats/json_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

// Writes down what it meets; refuses the string "stop".
class Recorder final : public JsonVisitor {
 public:
  Status on_begin_object() override { return note("{"); }

  Status on_end_object() override { return note("}"); }

  Status on_begin_array() override { return note("["); }

  Status on_end_array() override { return note("]"); }

  Status on_key(std::string_view key) override { return note(fmt::format("{}:", key)); }

  Status on_string(std::string_view text) override {
    if (text == "stop") return Status::unsupported("stopped");
    return note(fmt::format("'{}'", text));
  }

  Status on_unsigned(uint64_t value) override { return note(fmt::format("{}", value)); }

  Status on_other(std::string_view what) override { return note(fmt::format("<{}>", what)); }

  std::string seen;

 private:
  Status note(std::string_view event) {
    seen += event;
    seen += ' ';
    return Status::ok();
  }
};

TEST(JsonStream, ReportsEventsInOrderAndKeepsDoubledKeys) {
  Recorder recorder;
  ASSERT_TRUE(walk_json(R"({"a":[1,-2,0.5,null],"a":{"b":"c"},"d":true} )", 8, recorder).is_ok());
  EXPECT_EQ(recorder.seen,
            "{ a: [ 1 <a negative number> <0.5> <null> ] a: { b: 'c' } d: <true> } ");
}

TEST(JsonStream, StopsAtTheVisitorsError) {
  Recorder recorder;
  const Status status = walk_json(R"(["a","stop","b"])", 8, recorder);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(recorder.seen, "[ 'a' ");
}

TEST(JsonStream, RefusesDeepNesting) {
  Recorder recorder;
  EXPECT_TRUE(walk_json("[[[1]]]", 3, recorder).is_ok());
  EXPECT_EQ(walk_json("[[[[1]]]]", 3, recorder).code(), StatusCode::kCorruption);
}

TEST(JsonStream, RefusesWhatIsNotOneJsonValue) {
  for (const std::string_view text :
       {"", " ", "{", "[1,]", "{\"a\" 1}", "1 2", "nul", "\"\xff\"", "[1e999]", "{\"a\":1}x"}) {
    Recorder recorder;
    EXPECT_EQ(walk_json(text, 8, recorder).code(), StatusCode::kCorruption) << text;
  }
}

}  // namespace
}  // namespace cairn
