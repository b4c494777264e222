// Engine and cache numbers as JSON for /v1/cache/stats and /v1/cache/flush.
#pragma once

#include "base/json_fwd.h"
#include "engine/engine.h"

namespace cairn {

Json stats_json(const EngineStats& stats);
Json forget_json(const ForgetReport& report, bool is_dry_run);
Json flush_json(const FlushReport& report);

}  // namespace cairn
