#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>

namespace cairn {

struct Metrics::Impl {
  Impl()
      : responses(prometheus::BuildCounter()
                      .Name("cairn_http_responses_total")
                      .Help("HTTP responses by status")
                      .Register(registry)),
        first_token(prometheus::BuildHistogram()
                        .Name("cairn_first_token_seconds")
                        .Help("Time from a request's arrival to its first token")
                        .Register(registry)
                        .Add({},
                             prometheus::Histogram::BucketBoundaries{
                                 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120})) {}

  // The engine counts; here its numbers are only shown, so counters are set to what it says.
  void show_total(const std::string& name,
                  const std::string& help,
                  uint64_t value,
                  const prometheus::Labels& labels = {}) {
    auto [it, is_new] = totals.try_emplace({name, labels}, nullptr);
    if (is_new)
      it->second = &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
    const double target = static_cast<double>(value);
    if (target > it->second->Value()) it->second->Increment(target - it->second->Value());
  }

  void show_gauge(const std::string& name, const std::string& help, double value) {
    auto [it, is_new] = gauges.try_emplace(name, nullptr);
    if (is_new)
      it->second = &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
    it->second->Set(value);
  }

  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& responses;
  prometheus::Histogram& first_token;
  std::map<std::pair<std::string, prometheus::Labels>, prometheus::Counter*> totals;
  std::map<std::string, prometheus::Gauge*> gauges;
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}

Metrics::~Metrics() = default;

void Metrics::count_response(int http_status) {
  impl_->responses.Add({{"status", std::to_string(http_status)}}).Increment();
}

void Metrics::observe_first_token(double seconds) {
  impl_->first_token.Observe(seconds);
}

std::string Metrics::render(const EngineStats& stats, size_t n_connections) {
  Impl& m = *impl_;
  const CacheStats& cache = stats.cache;
  m.show_gauge("cairn_connections", "Open connections", static_cast<double>(n_connections));
  m.show_gauge(
      "cairn_requests_running", "Requests that generate now", static_cast<double>(stats.running));
  m.show_gauge(
      "cairn_requests_waiting", "Requests that wait for room", static_cast<double>(stats.waiting));
  m.show_total("cairn_requests_total",
               "Requests by outcome",
               stats.requests_finished,
               {{"outcome", "finished"}});
  m.show_total("cairn_requests_total",
               "Requests by outcome",
               stats.requests_failed,
               {{"outcome", "failed"}});
  m.show_total("cairn_requests_total",
               "Requests by outcome",
               stats.requests_cancelled,
               {{"outcome", "cancelled"}});
  m.show_total("cairn_prompt_tokens_total", "Prompt tokens received", stats.prompt_tokens);
  m.show_total("cairn_prefilled_tokens_total", "Prompt tokens computed", stats.prefilled_tokens);
  m.show_total("cairn_generated_tokens_total", "Tokens generated", stats.generated_tokens);
  m.show_total("cairn_cache_hit_tokens_total",
               "Prompt tokens reused by tier",
               cache.hit_tokens_device,
               {{"tier", "device"}});
  m.show_total("cairn_cache_hit_tokens_total",
               "Prompt tokens reused by tier",
               cache.hit_tokens_disk,
               {{"tier", "disk"}});
  m.show_gauge("cairn_cache_ram_bytes",
               "Memory that cached pages take",
               static_cast<double>(cache.ram_bytes));
  m.show_gauge(
      "cairn_cache_dirty_pages", "Pages not yet on disk", static_cast<double>(cache.dirty_pages));
  m.show_total("cairn_cache_dropped_dirty_total",
               "Pages evicted before they were written",
               cache.dropped_dirty);
  m.show_gauge("cairn_store_enabled", "1 when the disk tier is in use", cache.disk_enabled ? 1 : 0);
  m.show_gauge(
      "cairn_store_bytes", "Bytes in the store's folder", static_cast<double>(cache.disk_bytes));
  m.show_gauge(
      "cairn_store_objects", "Objects in the store", static_cast<double>(cache.disk_objects));
  m.show_total(
      "cairn_store_written_bytes_total", "Bytes written to the store", cache.bytes_written);
  m.show_total("cairn_store_restored_bytes_total",
               "Bytes read and verified from the store",
               cache.bytes_restored);
  m.show_total(
      "cairn_store_write_errors_total", "Objects that could not be written", cache.write_errors);
  m.show_total(
      "cairn_store_restore_errors_total", "Objects that could not be read", cache.restore_errors);
  m.show_total("cairn_store_quarantined_total", "Damaged objects set aside", cache.quarantined);
  m.show_total("cairn_store_index_damage_total",
               "Damaged stretches of the index, and rebuilds of all of it",
               cache.index_damage);
  return prometheus::TextSerializer().Serialize(m.registry.Collect());
}

}  // namespace cairn
