#include "hub/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "hub/model_name.h"

namespace cairn {
namespace {

constexpr size_t kErrorBodyMax = 4096;
constexpr size_t kErrorTextMax = 300;
constexpr long kReceiveBytes = 256 << 10;  // of a write callback; libcurl's own is 16 KiB

using CurlUrl = std::unique_ptr<CURLU, decltype([](CURLU* url) { curl_url_cleanup(url); })>;
using CurlEasy = std::unique_ptr<CURL, decltype([](CURL* easy) { curl_easy_cleanup(easy); })>;
using CurlList =
    std::unique_ptr<curl_slist, decltype([](curl_slist* l) { curl_slist_free_all(l); })>;

struct Origin {
  std::string scheme, host, port;

  friend bool operator==(const Origin&, const Origin&) = default;
};

std::string url_part(CURLU* url, CURLUPart part, unsigned flags) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return "";
  std::string out(text);
  curl_free(text);
  return out;
}

// Nullopt for what is no http(s) address.
std::optional<Origin> origin_of(std::string_view address) {
  const CurlUrl url(curl_url());
  const std::string text(address);
  if (!url || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    return std::nullopt;
  }
  Origin origin{url_part(url.get(), CURLUPART_SCHEME, 0),
                url_part(url.get(), CURLUPART_HOST, 0),
                url_part(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT)};
  for (char& c : origin.host) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (origin.scheme != "http" && origin.scheme != "https") return std::nullopt;
  return origin;
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "bytes 5-9/10"; a total of "*" stays unknown.
void read_content_range(std::string_view value, HttpHead* head) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = value.find('-');
  const size_t slash = value.find('/');
  if (!value.starts_with(kUnit) || dash == std::string_view::npos || slash < dash ||
      slash == std::string_view::npos) {
    return;
  }
  head->range_begin = parse_number(value.substr(kUnit.size(), dash - kUnit.size()));
  head->range_total = parse_number(value.substr(slash + 1));
}

// `name` in lower case.
void read_header(std::string_view name, std::string_view value, HttpHead* head) {
  if (name == "content-length") head->content_length = parse_number(value);
  if (name == "content-range") read_content_range(value, head);
  if (name == "etag") head->etag = value;
  if (name == "x-error-code") head->error_code = printable(value, 40);
  if (name == "x-linked-etag" && head->linked_etag.empty()) head->linked_etag = value;
  if (name == "x-linked-size" && !head->linked_size) head->linked_size = parse_number(value);
  if (name == "retry-after") {  // a date instead of seconds is rare, and our own pause does as well
    const auto seconds = parse_number(value);
    if (seconds) head->retry_after = std::chrono::seconds(std::min<uint64_t>(*seconds, 86'400));
  }
}

// For messages: a query may hold a signature that lets anyone fetch the file.
std::string shown(std::string_view address) {
  return printable(address.substr(0, address.find('?')));
}

bool is_loopback(std::string_view host) {
  const auto is_numeric = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && std::ranges::all_of(host, is_numeric));
}

bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
      return true;
    default:
      return false;
  }
}

bool is_unreached(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_COULDNT_CONNECT;
}

// One request and what came of it, as the library's callbacks see it.
struct Exchange {
  HttpHead* head = nullptr;
  HttpSink* sink = nullptr;
  const HttpOptions* options = nullptr;
  Status status;  // of the sink
  bool head_done = false;
  std::string error_body;

  bool end_head() {
    head_done = true;
    if (head->is_success()) status = sink->on_head(*head);
    return status.is_ok();
  }

  bool take_header(std::string_view line);
  bool take_body(std::span<const std::byte> bytes);
};

bool Exchange::take_header(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (head_done && !line.starts_with("HTTP/")) return true;  // a trailer
  if (line.starts_with("HTTP/")) {
    const size_t space = line.find(' ');
    const auto code = parse_number(line.substr(std::min(space, line.size() - 1) + 1, 3));
    HttpHead fresh;
    fresh.status = code ? static_cast<int>(*code) : 0;
    fresh.linked_etag = std::move(head->linked_etag);
    fresh.linked_size = head->linked_size;
    fresh.url = std::move(head->url);
    *head = std::move(fresh);
    head_done = false;
    return true;
  }
  if (line.empty()) return head->status < 200 || end_head();  // 1xx: the real answer follows
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
  read_header(name, value, head);
  return true;
}

bool Exchange::take_body(std::span<const std::byte> bytes) {
  if (head->is_success()) {
    status = sink->on_body(bytes);
    return status.is_ok();
  }
  const size_t room = kErrorBodyMax - error_body.size();
  error_body.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
  return error_body.size() < kErrorBodyMax;  // no more is wanted; get() knows
}

size_t on_header(char* data, size_t size, size_t n, void* exchange) {
  return static_cast<Exchange*>(exchange)->take_header({data, size * n}) ? size * n : 0;
}

size_t on_write(char* data, size_t size, size_t n, void* exchange) {
  const auto bytes = std::as_bytes(std::span<const char>(data, size * n));
  return static_cast<Exchange*>(exchange)->take_body(bytes) ? size * n : 0;
}

int on_progress(void* exchange, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Exchange*>(exchange)->options->is_stopped() ? 1 : 0;
}

template <typename Value>
void set(CURL* easy, CURLoption option, Value value) {
  curl_easy_setopt(easy, option, value);
}

}  // namespace

struct HttpClient::Impl {
  explicit Impl(HttpOptions http_options)
      : options(std::move(http_options)), easy(curl_easy_init()) {}

  void set_up(const HttpGet& request, const std::string& url, Exchange* exchange);
  Status failure(CURLcode code, const std::string& url, const Exchange& exchange);
  // One request, no redirect followed; where it leads, if anywhere, in `next`.
  Status hop(const HttpGet& request, const std::string& url, Exchange* exchange, std::string* next);

  HttpOptions options;
  CurlEasy easy;
  CurlList headers;
  std::array<char, CURL_ERROR_SIZE> error_text{};
  bool was_reached = false;  // some server has answered
};

HttpClient::HttpClient(HttpOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

HttpClient::~HttpClient() = default;

void HttpClient::Impl::set_up(const HttpGet& request, const std::string& url, Exchange* exchange) {
  CURL* const c = easy.get();
  curl_easy_reset(c);  // options alone: connections are kept
  set(c, CURLOPT_URL, url.c_str());
  set(c, CURLOPT_PROTOCOLS_STR, "http,https");
  set(c, CURLOPT_FOLLOWLOCATION, 0L);
  set(c, CURLOPT_SSL_VERIFYPEER, 1L);
  set(c, CURLOPT_SSL_VERIFYHOST, 2L);
  set(c, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // One transfer at a time: HTTP/2 would bring flow control and nothing else.
  set(c, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(c, CURLOPT_NOSIGNAL, 1L);
  set(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(c, CURLOPT_USERAGENT, options.user_agent.c_str());
  set(c, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_limit.count()));
  set(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(c, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_limit.count()));
  set(c, CURLOPT_BUFFERSIZE, kReceiveBytes);
  set(c, CURLOPT_HEADERFUNCTION, on_header);
  set(c, CURLOPT_HEADERDATA, static_cast<void*>(exchange));
  set(c, CURLOPT_WRITEFUNCTION, on_write);
  set(c, CURLOPT_WRITEDATA, static_cast<void*>(exchange));
  set(c, CURLOPT_NOPROGRESS, 0L);
  set(c, CURLOPT_XFERINFOFUNCTION, on_progress);
  set(c, CURLOPT_XFERINFODATA, static_cast<void*>(exchange));
  error_text[0] = '\0';
  set(c, CURLOPT_ERRORBUFFER, error_text.data());
  headers.reset();
  const auto add = [this](const std::string& line) {
    headers.reset(curl_slist_append(headers.release(), line.c_str()));
  };
  add("Accept-Encoding: identity");  // sizes and ids are those of the plain bytes
  if (!options.token.empty() && is_same_origin(url, options.token_origin)) {
    add("Authorization: Bearer " + options.token);
  }
  if (request.begin_byte > 0) {
    add(fmt::format("Range: bytes={}-", request.begin_byte));
    if (!request.if_range.empty()) add("If-Range: " + request.if_range);
  }
  set(c, CURLOPT_HTTPHEADER, headers.get());
}

Status HttpClient::Impl::failure(CURLcode code, const std::string& url, const Exchange& exchange) {
  if (!exchange.status.is_ok()) return exchange.status;
  if (code == CURLE_ABORTED_BY_CALLBACK) return Status::cancelled("stopped");
  const std::string_view detail =
      error_text[0] != '\0' ? error_text.data() : curl_easy_strerror(code);
  std::string text = fmt::format("{}: {}", shown(url), printable(detail));
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL) {
    return Status::invalid_argument(text + "; give an http or https address");
  }
  if (code == CURLE_PEER_FAILED_VERIFICATION) {
    return Status::io(text +
                      "; the server is not who it says, or a proxy's certificate has to be "
                      "installed on this machine");
  }
  if (code == CURLE_SSL_CACERT_BADFILE) {
    return Status::io(text + "; install the package ca-certificates");
  }
  if (is_unreached(code) && !was_reached) {
    return Status::io(text + "; check the network, and HF_ENDPOINT if a mirror is meant");
  }
  return may_pass(code) ? Status::overloaded(text) : Status::io(text);
}

Status HttpClient::Impl::hop(const HttpGet& request,
                             const std::string& url,
                             Exchange* exchange,
                             std::string* next) {
  set_up(request, url, exchange);
  exchange->head->url = url;
  const CURLcode code = curl_easy_perform(easy.get());
  HttpHead& head = *exchange->head;
  if (head.status != 0) was_reached = true;
  if (options.is_stopped()) return Status::cancelled("stopped");
  // An answer that is no success is known by its head; its body may be cut short.
  const bool is_told = exchange->head_done && !head.is_success();
  if (code != CURLE_OK && !is_told) return failure(code, url, *exchange);
  if (!exchange->head_done) {
    return Status::overloaded(fmt::format("{}: the answer has no HTTP head", shown(url)));
  }
  const char* location = nullptr;
  curl_easy_getinfo(easy.get(), CURLINFO_REDIRECT_URL, &location);
  const bool is_redirect = head.status >= 300 && head.status < 400;
  if (is_redirect && location != nullptr) *next = location;
  head.error_text = printable(exchange->error_body, kErrorTextMax);
  return Status::ok();
}

Result<HttpHead> HttpClient::get(const HttpGet& request, HttpSink& sink) {
  HttpHead head;
  std::string url = request.url;
  if (!impl_->easy) return Status::internal("libcurl cannot be started");
  if (!origin_of(url)) {
    return Status::invalid_argument(fmt::format("\"{}\" is no http or https address", shown(url)));
  }
  for (unsigned n_hops = 0; n_hops <= kRedirectsMax; ++n_hops) {
    Exchange exchange;
    exchange.head = &head;
    exchange.sink = &sink;
    exchange.options = &impl_->options;
    head.status = 0;
    std::string next;
    CAIRN_RETURN_IF_ERROR(impl_->hop(request, url, &exchange, &next));
    if (next.empty()) return head;
    CAIRN_RETURN_IF_ERROR(check_redirect(url, next));
    url = std::move(next);
  }
  return Status::corruption(fmt::format(
      "{}: more than {} redirects, one leading to the next", shown(request.url), kRedirectsMax));
}

bool is_same_origin(std::string_view a, std::string_view b) {
  const std::optional<Origin> first = origin_of(a);
  return first && first == origin_of(b);
}

Status check_redirect(const std::string& from, const std::string& to) {
  const std::optional<Origin> source = origin_of(from);
  const std::optional<Origin> target = origin_of(to);
  if (!source || !target) {
    return Status::corruption(fmt::format(
        "{} sends on to {}, which is no http or https address", shown(from), shown(to)));
  }
  if (source->scheme == "https" && target->scheme != "https") {
    return Status::corruption(
        fmt::format("{} sends on to {}, from https to http: not followed", shown(from), shown(to)));
  }
  return Status::ok();
}

bool is_private_channel(std::string_view url) {
  const std::optional<Origin> origin = origin_of(url);
  if (!origin) return false;
  return origin->scheme == "https" || is_loopback(origin->host);
}

std::string escape_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~' ||
                          c == '/';
    if (is_plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace cairn
