// A server whose certificate nobody vouches for gets neither a request nor a token.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <memory>
#include <thread>

#include "base/check.h"
#include "base/unique_fd.h"
#include "hub/http_client.h"
#include "hub/hub_fixture.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

using Key = std::unique_ptr<EVP_PKEY, decltype([](EVP_PKEY* key) { EVP_PKEY_free(key); })>;
using Certificate = std::unique_ptr<X509, decltype([](X509* x) { X509_free(x); })>;
using TlsContext = std::unique_ptr<SSL_CTX, decltype([](SSL_CTX* c) { SSL_CTX_free(c); })>;
using TlsStream = std::unique_ptr<SSL, decltype([](SSL* s) { SSL_free(s); })>;

// For 127.0.0.1, valid for an hour, signed by itself.
Certificate self_signed(EVP_PKEY* key) {
  Certificate certificate(X509_new());
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  const auto* const host = reinterpret_cast<const unsigned char*>("127.0.0.1");
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, host, -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  CAIRN_CHECK(X509_sign(certificate.get(), key, EVP_sha256()) > 0, "no certificate");
  return certificate;
}

// Takes one connection and whatever is said on it.
class TlsServer {
 public:
  TlsServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    CAIRN_CHECK(::bind(listener_.get(), raw, size) == 0 && ::listen(listener_.get(), 1) == 0 &&
                    ::getsockname(listener_.get(), raw, &size) == 0,
                "no local port can be opened");
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }

  std::string url() const { return fmt::format("https://127.0.0.1:{}", port_); }

  // What came through the encrypted stream. Waits for its end.
  std::string heard() {
    thread_.join();
    return heard_;
  }

 private:
  void serve() {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate = self_signed(key.get());
    const TlsContext context(SSL_CTX_new(TLS_server_method()));
    SSL_CTX_use_certificate(context.get(), certificate.get());
    SSL_CTX_use_PrivateKey(context.get(), key.get());
    const UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const TlsStream stream(SSL_new(context.get()));
    SSL_set_fd(stream.get(), fd.get());
    if (SSL_accept(stream.get()) != 1) return;
    char bytes[4096];
    const int n = SSL_read(stream.get(), bytes, sizeof bytes);
    if (n > 0) heard_.assign(bytes, static_cast<size_t>(n));
  }

  UniqueFd listener_;
  uint16_t port_ = 0;
  std::string heard_;
  std::jthread thread_;
};

class NoSink final : public HttpSink {
 public:
  Status on_head(const HttpHead&) override { return Status::ok(); }

  Status on_body(std::span<const std::byte>) override { return Status::ok(); }
};

TEST(HttpTls, ACertificateThatNobodyVouchesForEndsIt) {
  testing::ignore_proxies();
  TlsServer server;
  HttpOptions options;
  options.token = "hf_secret";
  options.token_origin = server.url();
  NoSink sink;
  const auto head = HttpClient(options).get({server.url() + "/x", 0, ""}, sink);
  EXPECT_EQ(head.status().code(), StatusCode::kIo);
  EXPECT_THAT(head.status().message(), HasSubstr("certificate"));
  EXPECT_EQ(server.heard(), "");
}

}  // namespace
}  // namespace cairn
