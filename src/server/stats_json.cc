#include "server/stats_json.h"

#include "base/json.h"

namespace cairn {

Json stats_json(const EngineStats& stats) {
  const CacheStats& c = stats.cache;
  Json out;
  out["memory"] = {{"bytes", c.ram_bytes},
                   {"budget_bytes", c.ram_budget_bytes},
                   {"nodes", c.nodes},
                   {"namespaces", c.namespaces},
                   {"resident_pages", c.resident_pages},
                   {"dirty_pages", c.dirty_pages},
                   {"anchors", c.anchors},
                   {"evicted_pages", c.evicted_pages},
                   {"dropped_dirty", c.dropped_dirty}};
  out["disk"] = {{"enabled", c.disk_enabled},
                 {"disabled_reason", c.disk_disabled_reason},
                 {"objects", c.disk_objects},
                 {"bytes", c.disk_bytes},
                 {"max_bytes", c.disk_max_bytes},
                 {"unsynced_bytes", c.unsynced_bytes},
                 {"objects_written", c.objects_written},
                 {"bytes_written", c.bytes_written},
                 {"write_errors", c.write_errors},
                 {"objects_restored", c.objects_restored},
                 {"bytes_restored", c.bytes_restored},
                 {"restore_errors", c.restore_errors},
                 {"quarantined", c.quarantined},
                 {"left_alone", c.left_alone},
                 {"index_damage", c.index_damage},
                 {"evicted_objects", c.evicted_objects}};
  out["reuse"] = {{"lookups", c.lookups},
                  {"hit_tokens_device", c.hit_tokens_device},
                  {"hit_tokens_disk", c.hit_tokens_disk},
                  {"misses_damaged", c.misses_damaged}};
  out["engine"] = {{"running", stats.running},
                   {"waiting", stats.waiting},
                   {"steps", stats.steps},
                   {"prompt_tokens", stats.prompt_tokens},
                   {"prefilled_tokens", stats.prefilled_tokens},
                   {"generated_tokens", stats.generated_tokens}};
  return out;
}

Json forget_json(const ForgetReport& report, bool is_dry_run) {
  Json out;
  out["dry_run"] = is_dry_run;
  out["durable"] = !is_dry_run && report.status.is_ok();
  if (!report.status.is_ok()) out["message"] = report.status.message();
  out["removed"] = {
      {"objects", report.n_objects}, {"bytes", report.n_bytes}, {"tokens", report.n_tokens}};
  out["shared"] = {{"tokens", report.n_shared_tokens}};
  return out;
}

Json flush_json(const FlushReport& report) {
  Json out;
  out["durable"] = report.status.is_ok();
  if (!report.status.is_ok()) out["message"] = report.status.message();
  out["objects"] = report.n_objects;
  out["bytes"] = report.n_bytes;
  out["failed"] = report.n_failed;
  out["dropped"] = report.n_dropped;
  return out;
}

}  // namespace cairn
