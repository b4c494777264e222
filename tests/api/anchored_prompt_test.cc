// Text anchors over the demo model's tokenizer and template; no engine.
#include "api/anchored_prompt.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/prepared_request.h"
#include "api/reply.h"
#include "base/json.h"
#include "text/chat_format.h"

namespace cairn {
namespace {

constexpr TokenId kEndOfTurn = 4091;
constexpr int64_t kToday = 1'721'997'296;

class AnchorTest : public testing::Test {
 protected:
  AnchorTest() {
    const std::string folder = std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo";
    model_->name = "demo";
    model_->tokenizer = Tokenizer::load(folder).value();
    model_->chat = std::make_shared<const ChatFormat>(ChatFormat::load(folder).value());
    model_->vocab_size = 4096;
    model_->context_tokens = 4096;
    model_->stop_ids = {kEndOfTurn};
    model_->anchors = std::make_shared<AnchorTable>(1 << 20);
    model_->anchor_scope = anchor_scope(Digest{}, *model_->tokenizer);
    model_->end_of_turn = end_of_turn(*model_->chat, *model_->tokenizer);
  }

  PreparedRequest prepared(const Json& messages,
                           const Json& cairn = Json::object(),
                           std::string_view key_domain = {}) const {
    const Json body{{"messages", messages}, {"cairn", cairn}};
    auto result = prepare_chat(dump_json(body), {model_}, kToday, key_domain);
    if (const auto* error = std::get_if<ApiError>(&result)) {
      ADD_FAILURE() << error->message;
      std::abort();
    }
    return std::move(std::get<PreparedRequest>(result));
  }

  static Json said(const std::string& role, const std::string& text) {
    return {{"role", role}, {"content", text}};
  }

  // As no tokenizer would spell it: a token for each byte.
  std::vector<TokenId> spelt_out(const std::string& text) const {
    std::vector<TokenId> ids;
    for (const char c : text)
      ids.push_back(*model_->tokenizer->find_token(std::string_view(&c, 1)));
    return ids;
  }

  // Tells the reply's events; keeps what becomes of it.
  std::optional<Anchor> reply_of(const PreparedRequest& request,
                                 const std::vector<TokenId>& ids) const {
    Reply reply(request);
    reply.on_started(0, {});
    for (const TokenId id : ids) {
      GeneratedToken token;
      token.id = id;
      token.is_stop = id == kEndOfTurn;
      reply.on_token(0, token);
    }
    reply.on_finished(0, FinishReason::kStop, {});
    auto anchor = reply.anchor(0);
    if (anchor) model_->anchors->add(*anchor);
    return anchor;
  }

  const std::vector<TokenId>& prompt_of(const PreparedRequest& request) const {
    return request.choices.front().prompt;
  }

  std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>();
  const Json first_ = Json::array({said("user", "Where is the Louvre?")});
  const Json second_ = Json::array({said("user", "Where is the Louvre?"),
                                    said("assistant", "In Paris"),
                                    said("user", "Thanks.")});
};

std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(AnchorTest, TheEndOfATurnComesFromTheTemplate) {
  EXPECT_EQ(model_->end_of_turn, kEndOfTurn);
}

TEST_F(AnchorTest, AReplyThatIsSentBackKeepsItsIds) {
  const auto request = prepared(first_);
  EXPECT_EQ(request.n_anchored, 0U);
  const std::vector<TokenId> reply = spelt_out("In Paris");
  ASSERT_NE(model_->tokenizer->encode("In Paris", false), reply);
  ASSERT_TRUE(reply_of(request, joined(reply, {kEndOfTurn})).has_value());

  const auto next = prepared(second_);
  const std::vector<TokenId> known = joined(joined(prompt_of(request), reply), {kEndOfTurn});
  EXPECT_EQ(next.n_anchored, known.size());
  ASSERT_GT(prompt_of(next).size(), known.size());
  EXPECT_TRUE(std::equal(known.begin(), known.end(), prompt_of(next).begin()));
  const auto plain = prepared(second_, {{"anchors", false}});
  EXPECT_EQ(plain.n_anchored, 0U);
  EXPECT_NE(prompt_of(plain), prompt_of(next));
  EXPECT_EQ(model_->tokenizer->decode(prompt_of(plain), false),
            model_->tokenizer->decode(prompt_of(next), false));
  EXPECT_EQ(plain.anchor_basis, nullptr);

  // And the turn after that goes on from there.
  ASSERT_TRUE(reply_of(next, spelt_out("Welcome")).has_value());
  Json third = second_;
  third.push_back(said("assistant", "Welcome"));
  third.push_back(said("user", "Bye"));
  EXPECT_EQ(prepared(third).n_anchored, prompt_of(next).size() + 7 + 1);
}

TEST_F(AnchorTest, KeysDoNotFindEachOthersAnchors) {
  const std::string alpha(64, 'a');
  const auto request = prepared(first_, Json::object(), alpha);
  ASSERT_TRUE(reply_of(request, joined(spelt_out("In Paris"), {kEndOfTurn})).has_value());
  EXPECT_GT(prepared(second_, Json::object(), alpha).n_anchored, 0U);
  EXPECT_EQ(prepared(second_, Json::object(), std::string(64, 'b')).n_anchored, 0U);
  EXPECT_EQ(prepared(second_).n_anchored, 0U);
}

TEST_F(AnchorTest, ReplyThatWasCutEndsItsTurnAsTheTemplateDoes) {
  const auto request = prepared(first_);
  const auto anchor = reply_of(request, spelt_out("In Paris"));  // length: no stop id
  ASSERT_TRUE(anchor.has_value());
  EXPECT_EQ(anchor->ids.back(), kEndOfTurn);
  EXPECT_EQ(prepared(second_).n_anchored, prompt_of(request).size() + 8 + 1);
}

TEST_F(AnchorTest, OtherTextIsTokenisedFromWhereItDiffers) {
  const auto request = prepared(first_);
  reply_of(request, spelt_out("In Paris"));
  Json edited = second_;
  edited[1]["content"] = "In paris";
  EXPECT_EQ(prepared(edited).n_anchored, 0U);
  Json longer = second_;
  longer.push_back(said("assistant", "You are welcome."));
  longer.push_back(said("user", "Bye"));
  EXPECT_EQ(prepared(longer).n_anchored, prompt_of(request).size() + 8 + 1);
}

TEST_F(AnchorTest, TextOfAStopStringMustEndWhereATokenDoes) {
  const Json body{{"messages", first_}, {"stop", "ris"}};
  auto result = prepare_chat(dump_json(body), {model_}, kToday);
  const auto& request = std::get<PreparedRequest>(result);
  const std::vector<TokenId> whole = model_->tokenizer->encode("In Paris", false);
  const auto in_tokens = reply_of(request, whole);
  const bool ends_with_a_token = [&] {
    for (size_t n = 0; n <= whole.size(); ++n) {
      if (model_->tokenizer->decode(std::span(whole).first(n), false) == "In Pa") return true;
    }
    return false;
  }();
  EXPECT_EQ(in_tokens.has_value(), ends_with_a_token);
  const auto in_bytes = reply_of(request, spelt_out("In Paris"));
  ASSERT_TRUE(in_bytes.has_value());
  EXPECT_EQ(in_bytes->ids, joined(joined(prompt_of(request), spelt_out("In Pa")), {kEndOfTurn}));
}

TEST_F(AnchorTest, IdsThatAreNotTheTextAreNotUsed) {
  const auto request = prepared(first_);
  auto anchor = reply_of(request, spelt_out("In Paris"));
  ASSERT_TRUE(anchor.has_value());
  anchor->ids[anchor->ids.size() - 2] += 1;
  model_->anchors->add(*anchor);
  EXPECT_EQ(prepared(second_).n_anchored, 0U);
  EXPECT_EQ(prompt_of(prepared(second_)), prompt_of(prepared(second_, {{"anchors", false}})));
}

TEST_F(AnchorTest, AnotherNamespaceOrModelFindsNothing) {
  const auto request = prepared(first_);
  reply_of(request, spelt_out("In Paris"));
  const std::string text = model_->tokenizer->decode(prompt_of(prepared(second_)), false);
  EXPECT_GT(encode_anchored(*model_, "", text).n_anchored, 0U);
  EXPECT_EQ(encode_anchored(*model_, "other", text).n_anchored, 0U);
  model_->anchor_scope = anchor_scope(sha256({}), *model_->tokenizer);
  EXPECT_EQ(encode_anchored(*model_, "", text).n_anchored, 0U);
}

TEST_F(AnchorTest, WhatIsNotToBeStoredBecomesNoAnchor) {
  const auto request = prepared(first_, {{"no_store", true}});
  EXPECT_FALSE(reply_of(request, spelt_out("In Paris")).has_value());
  EXPECT_EQ(prepared(second_).n_anchored, 0U);
}

// A reply may spell out what looks like the end of a turn; the text is one, the ids are not.
TEST_F(AnchorTest, AReplyThatSpellsASpecialTokenIsKeptAsItWas) {
  const auto request = prepared(first_);
  const std::string end(model_->tokenizer->token_bytes(kEndOfTurn));
  const std::vector<TokenId> reply = spelt_out("a" + end + "b");
  ASSERT_TRUE(reply_of(request, reply).has_value());
  Json next = second_;
  next[1]["content"] = "a" + end + "b";
  const auto anchored = prepared(next);
  EXPECT_EQ(anchored.n_anchored, prompt_of(request).size() + reply.size() + 1);
}

}  // namespace
}  // namespace cairn
