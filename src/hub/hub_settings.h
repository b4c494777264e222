// Where a hub and the models on this machine are, and who we are there: from the environment, by
// the variables that other programs read too.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/result.h"
#include "hub/http_client.h"
#include "hub/model_name.h"

namespace cairn {

// How often a broken transfer is taken up again. Attempts count anew once bytes have come.
struct RetryPolicy {
  unsigned n_attempts = 6;
  std::chrono::milliseconds first_pause{500};  // doubles with each attempt
  std::chrono::milliseconds pause_max{30'000};
  // A hub that asks for a longer wait gets none: the error says how long it asked for.
  std::chrono::seconds asked_pause_max{300};
  // Waits; false when the wait was broken off because the user wants to stop.
  std::function<bool(std::chrono::milliseconds)> pause = [](std::chrono::milliseconds wait) {
    std::this_thread::sleep_for(wait);
    return true;
  };
};

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // no slash at the end
  HttpOptions http;                                 // with the token, if there is one
  std::string warning;  // why a token that was found is not used; empty: nothing to say
  RetryPolicy retry;
};

// HF_ENDPOINT; the token from HF_TOKEN, else from the file HF_TOKEN_PATH or $HF_HOME/token. A token
// is not used with an endpoint where others could read it (http, except on this machine).
// Errors: kInvalidArgument (an endpoint that is no http(s) address, or has a user or query in it;
// a token with spaces or control characters in it).
Result<HubSettings> hub_settings_from_environment();

// Folders that hold models by name.
struct ModelPlaces {
  std::string models_dir;     // ours: <models_dir>/<org>/<repo>/
  std::string hub_cache_dir;  // of Hugging Face programs: models--<org>--<repo>/snapshots/<commit>/

  std::string folder_of(const ModelName& name) const { return models_dir + "/" + name.repo_id(); }
};

// $XDG_CACHE_HOME/cairn/models as the cache has it; HF_HUB_CACHE, else $HF_HOME/hub, where HF_HOME
// is $XDG_CACHE_HOME/huggingface or ~/.cache/huggingface by default.
ModelPlaces model_places_from_environment();

}  // namespace cairn
