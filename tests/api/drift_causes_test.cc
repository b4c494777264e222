#include <gtest/gtest.h>

#include "api/drift.h"
#include "api/miss_json.h"
#include "base/json.h"

namespace cairn {
namespace {

std::string cause_of(const std::string& shared,
                     const std::string& known,
                     const std::string& given,
                     const OutlinedMessage* message = nullptr,
                     const PromptOutline& outline = {}) {
  const auto drift = recognise_drift({shared, known, given, message}, outline);
  EXPECT_TRUE(!drift || !drift->advice.empty());
  return drift ? std::string(to_string(drift->cause)) : "none";
}

const OutlinedMessage kSystem{0, "system", 0, 100};
const OutlinedMessage kQuestion{5, "user", 0, 100};
const OutlinedMessage kReply{6, "assistant", 0, 100};

TEST(Drift, ClocksOfManyKinds) {
  EXPECT_EQ(cause_of("Today is 2026-12-0", "1.\nBe kind", "2.\nBe kind", &kSystem), "clock");
  EXPECT_EQ(cause_of("It is ", "09:15:03 now", "21:00:59 now", &kSystem), "clock");
  EXPECT_EQ(cause_of("on Tue Dec 1 1", "4:03 2026", "5:44 2026", &kSystem), "clock");
  EXPECT_EQ(cause_of("Current date: ", "December 1", "November 30", &kSystem), "clock");
  EXPECT_EQ(cause_of("time=17645", "54400 ", "55555 ", &kSystem), "clock");
}

TEST(Drift, NumbersAreNotClocks) {
  EXPECT_EQ(cause_of("You know ", "12 facts", "13 facts", &kSystem), "edited_message");
  EXPECT_EQ(cause_of("Call me v", "1alpha", "2alpha", &kSystem), "edited_message");
  // What a user asks about further down is a question, not a clock.
  EXPECT_EQ(cause_of("What was on ", "2001-09-12", "2001-09-13", &kQuestion), "edited_message");
}

TEST(Drift, ToolsByTheirNames) {
  PromptOutline outline;
  outline.tool_names = {"b", "a"};
  EXPECT_EQ(cause_of("<tools>\n{\"name\": \"",
                     "a\", \"x\": 1}\n{\"name\": \"b\", \"x\": 2}",
                     "b\", \"x\": 2}\n{\"name\": \"a\", \"x\": 1}",
                     &kSystem,
                     outline),
            "tools_reordered");
  EXPECT_EQ(cause_of("<tools>\n{\"name\": \"a\", \"x\": ", "1}", "7}", &kSystem, outline),
            "edited_message");
}

TEST(Drift, ReasoningMovesRepliesAndEdits) {
  EXPECT_EQ(cause_of("assistant\n", "<think>\nwell\n</think>\nYes.", "Yes.", &kReply),
            "reasoning_dropped");
  const std::string later = "user\nHow many letters does the word purple have?";
  EXPECT_EQ(cause_of("system\n", "user\nFirst.\nassistant\nOk.\n" + later, later, &kQuestion),
            "messages_removed");
  EXPECT_EQ(cause_of("system\n", later, "user\nNew words here.\n" + later, &kQuestion),
            "messages_inserted");
  EXPECT_EQ(cause_of("assistant\n", "Paris.", "Rome.", &kReply), "other_reply");
  EXPECT_EQ(cause_of("user\n", "Where?", "Why?", &kQuestion), "edited_message");
  EXPECT_EQ(cause_of("user\n", "Where?", "Why?"), "none");
  EXPECT_EQ(
      cause_of(
          "", "the very same text of both sides, yes", "the very same text of both sides, yes"),
      "same_text");
}

TEST(PromptOutline, FindsMessagesInOrderAndSkipsWhatATemplateChanged) {
  const Json messages = Json::array({{{"role", "system"}, {"content", " Be kind. "}},
                                     {{"role", "user"}, {"content", "Hi"}},
                                     {{"role", "assistant"}, {"content", nullptr}},
                                     {{"role", "user"}, {"content", "shouted"}},
                                     {{"role", "user"}, {"content", "Hi"}}});
  const std::string text = "<s>Be kind.<u>Hi<a><u>SHOUTED<u>Hi<a>";
  const Json tools =
      Json::array({{{"type", "function"}, {"function", {{"name", "f"}}}}, {{"name", "g"}}});
  const PromptOutline outline = outline_prompt(messages, tools, text);
  ASSERT_EQ(outline.messages.size(), 3U);
  EXPECT_EQ(outline.messages[1].index, 1U);
  EXPECT_EQ(outline.messages[2].index, 4U);
  EXPECT_EQ(outline.message_at(4)->index, 0U);
  EXPECT_EQ(outline.message_at(text.find("SHOUTED"))->index, 4U);
  EXPECT_EQ(outline.message_at(text.size()), nullptr);
  EXPECT_EQ(outline.tool_names, (std::vector<std::string>{"f", "g"}));
}

}  // namespace
}  // namespace cairn
