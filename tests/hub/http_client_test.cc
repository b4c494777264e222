#include "hub/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "hub/hub_fixture.h"

namespace cairn {
namespace {

using testing::FakeHub;
using ::testing::HasSubstr;
using testing::HubReply;
using testing::HubRequest;

class TextOf final : public HttpSink {
 public:
  Status on_head(const HttpHead&) override {
    ++n_heads;
    return head_status;
  }

  Status on_body(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return body_status;
  }

  std::string text;
  int n_heads = 0;
  Status head_status, body_status;
};

// A client whose token is for `hub`.
class HttpClientTest : public ::testing::Test {
 protected:
  HttpClientTest() { testing::ignore_proxies(); }

  Result<HttpHead> get(const std::string& url, HttpOptions options = {}) {
    HttpClient client(std::move(options));
    return client.get({url, 0, ""}, sink_);
  }

  HttpOptions with_token() const {
    HttpOptions options;
    options.token = "hf_secret";
    options.token_origin = hub_.url();
    return options;
  }

  FakeHub hub_;
  TextOf sink_;
};

TEST_F(HttpClientTest, ReadsTheHeadAndTheBody) {
  hub_.intercept([](const HubRequest&) {
    HubReply reply;
    reply.body = "hello";
    reply.headers = {{"eTaG", " \"x\" "}, {"X-Linked-Size", "7"}, {"X-Linked-Etag", "\"y\""}};
    return reply;
  });
  const auto head = get(hub_.url() + "/a");
  ASSERT_TRUE(head.is_ok()) << head.status().message();
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->etag, "\"x\"");
  EXPECT_EQ(head->linked_etag, "\"y\"");
  EXPECT_EQ(head->linked_size, 7U);
  EXPECT_EQ(head->content_length, 5U);
  EXPECT_EQ(sink_.text, "hello");
  EXPECT_EQ(sink_.n_heads, 1);
  EXPECT_EQ(hub_.requests().front().headers.at("accept-encoding"), "identity");
}

TEST_F(HttpClientTest, AnErrorsBodyIsNotTakenForTheFile) {
  hub_.intercept([](const HubRequest&) {
    HubReply reply;
    reply.status = 403;
    reply.body = "no\x1b[2J way" + std::string(100'000, '.');
    reply.headers = {{"X-Error-Code", "GatedRepo"}, {"Retry-After", "7"}};
    return reply;
  });
  const auto head = get(hub_.url() + "/a");
  ASSERT_TRUE(head.is_ok()) << head.status().message();
  EXPECT_EQ(head->status, 403);
  EXPECT_EQ(head->error_code, "GatedRepo");
  EXPECT_EQ(head->retry_after, std::chrono::seconds(7));
  EXPECT_THAT(head->error_text, HasSubstr("no [2J way"));
  EXPECT_LT(head->error_text.size(), 400U);
  EXPECT_EQ(sink_.text + std::to_string(sink_.n_heads), "0");
}

TEST_F(HttpClientTest, TheTokenGoesToTheHubAndNowhereElse) {
  FakeHub other;
  other.intercept([](const HubRequest&) { return HubReply{.body = "there"}; });
  hub_.intercept([&](const HubRequest& request) -> HubReply {
    if (request.target == "/away")
      return {.status = 302, .headers = {{"Location", other.url() + "/x"}}};
    if (request.target == "/moved") return {.status = 307, .headers = {{"Location", "/here"}}};
    return {.body = "here"};
  });
  ASSERT_TRUE(get(hub_.url() + "/away", with_token()).is_ok());
  EXPECT_EQ(sink_.text, "there");
  EXPECT_EQ(hub_.requests().front().headers.at("authorization"), "Bearer hf_secret");
  const auto seen = other.requests();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_FALSE(seen.front().has("authorization"));
  for (const auto& [name, value] : seen.front().headers) {
    EXPECT_THAT(value, ::testing::Not(HasSubstr("hf_secret"))) << name;
  }
  hub_.forget_requests();
  ASSERT_TRUE(get(hub_.url() + "/moved", with_token()).is_ok());
  ASSERT_EQ(hub_.requests().size(), 2U);
  EXPECT_TRUE(hub_.requests().back().has("authorization"));
}

TEST_F(HttpClientTest, ARedirectKeepsWhatTheFirstAnswerSaidOfTheFile) {
  FakeHub other;
  other.intercept([](const HubRequest&) {
    return HubReply{.headers = {{"ETag", "\"other\""}, {"X-Linked-Etag", "\"evil\""}}, .body = "x"};
  });
  hub_.intercept([&](const HubRequest&) -> HubReply {
    return {.status = 302, .headers = {{"Location", other.url()}, {"X-Linked-Etag", "\"true\""}}};
  });
  const auto head = get(hub_.url() + "/a");
  ASSERT_TRUE(head.is_ok());
  EXPECT_EQ(head->linked_etag, "\"true\"");
  EXPECT_EQ(head->etag, "\"other\"");
  EXPECT_TRUE(is_same_origin(head->url, other.url()));
}

TEST_F(HttpClientTest, RedirectsAreCounted) {
  hub_.intercept([](const HubRequest&) {
    return HubReply{.status = 302, .headers = {{"Location", "/again"}}};
  });
  const auto head = get(hub_.url() + "/a");
  EXPECT_EQ(head.status().code(), StatusCode::kCorruption);
  EXPECT_EQ(hub_.requests().size(), kRedirectsMax + 1);
}

TEST_F(HttpClientTest, RedirectsToOtherThingsAreRefused) {
  for (const char* target :
       {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1:1/_x"}) {
    hub_.intercept([target](const HubRequest&) {
      return HubReply{.status = 302, .headers = {{"Location", target}}};
    });
    EXPECT_EQ(get(hub_.url() + "/a").status().code(), StatusCode::kCorruption) << target;
  }
  EXPECT_EQ(get("file:///etc/passwd").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(sink_.text, "");
}

TEST(HttpRedirect, IsNeverFromHttpsToHttp) {
  EXPECT_TRUE(check_redirect("https://a/x", "https://b/y").is_ok());
  EXPECT_TRUE(check_redirect("http://a/x", "https://a/x").is_ok());
  EXPECT_TRUE(check_redirect("http://a/x", "http://b/x").is_ok());
  const Status down = check_redirect("https://a/x", "http://a/x?signature=secret");
  EXPECT_EQ(down.code(), StatusCode::kCorruption);
  EXPECT_THAT(down.message(), HasSubstr("http://a/x"));
  EXPECT_THAT(down.message(), ::testing::Not(HasSubstr("secret")));
}

TEST(HttpOrigin, IsSchemeHostAndPort) {
  EXPECT_TRUE(is_same_origin("https://A.org/x?y", "https://a.org:443/z"));
  EXPECT_FALSE(is_same_origin("https://a.org", "http://a.org"));
  EXPECT_FALSE(is_same_origin("https://a.org", "https://a.org:8443"));
  EXPECT_FALSE(is_same_origin("https://a.org", "https://a.org.evil.net"));
  EXPECT_FALSE(is_same_origin("https://a.org", "https://a.org@evil.net"));
  EXPECT_FALSE(is_same_origin("nothing at all", "nothing at all"));
  EXPECT_TRUE(is_private_channel("https://a.org"));
  EXPECT_TRUE(is_private_channel("http://127.0.0.1:80"));
  EXPECT_TRUE(is_private_channel("http://localhost"));
  EXPECT_FALSE(is_private_channel("http://127.0.0.1.evil.net"));
  EXPECT_FALSE(is_private_channel("http://a.org"));
  EXPECT_EQ(escape_path("a b/ü%?#.x"), "a%20b/%C3%BC%25%3F%23.x");
}

TEST_F(HttpClientTest, ADeadAddressIsSaidAtOnceAndABrokenOneMayPass) {
  std::string gone;
  {
    const FakeHub closed;
    gone = closed.url();
  }
  EXPECT_EQ(get(gone).status().code(), StatusCode::kIo);
  HttpClient client(HttpOptions{});
  ASSERT_TRUE(client.get({hub_.url() + "/api/models/x", 0, ""}, sink_).is_ok());
  EXPECT_EQ(client.get({gone, 0, ""}, sink_).status().code(), StatusCode::kOverloaded);
  hub_.intercept([](const HubRequest&) { return HubReply{.body = "abcdef", .cut_after = 3}; });
  EXPECT_EQ(get(hub_.url()).status().code(), StatusCode::kOverloaded);
}

TEST_F(HttpClientTest, ASilentServerIsGivenUp) {
  // Shared with the hub's threads, which may still hold it when the test's body has ended.
  struct Gate {
    Mutex mutex;
    CondVar opened;
    bool is_open = false;
  };

  const auto gate = std::make_shared<Gate>();
  hub_.intercept([gate](const HubRequest&) {
    return HubReply{.body = "abcdef", .cut_after = 3, .before_cut = [gate] {
                      const MutexLock lock(gate->mutex);
                      while (!gate->is_open) gate->opened.wait(gate->mutex);
                    }};
  });
  HttpOptions options;
  options.stall_limit = std::chrono::seconds(1);
  EXPECT_EQ(get(hub_.url(), options).status().code(), StatusCode::kOverloaded);
  options.stall_limit = std::chrono::seconds(600);
  options.is_stopped = [this] { return sink_.text.size() >= 6; };  // the second three bytes came
  EXPECT_EQ(get(hub_.url(), options).status().code(), StatusCode::kCancelled);
  const MutexLock lock(gate->mutex);
  gate->is_open = true;
  gate->opened.notify_all();
}

TEST_F(HttpClientTest, TheSinkMayEndIt) {
  sink_.body_status = Status::no_space("full");
  EXPECT_EQ(get(hub_.url() + "/api/models/x").status().code(), StatusCode::kNoSpace);
  sink_.head_status = Status::unsupported("unwanted");
  sink_.text.clear();
  EXPECT_EQ(get(hub_.url() + "/api/models/x").status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(sink_.text, "");
}

}  // namespace
}  // namespace cairn
