#include "cli/loaded_model.h"

#include <algorithm>
#include <future>
#include <utility>

#include "formats/model_config.h"

namespace cairn::cli {

Result<LoadedModel> load_model_and_text(const std::string& path,
                                        const char* template_file,
                                        Backend& backend,
                                        const ComputeFlags& flags) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint,
                         Checkpoint::open(path));
  std::future<Result<TextParts>> text;
  if (template_file != kNoText) {
    text = std::async(std::launch::async,
                      [&] { return load_text_parts(path, template_file, checkpoint); });
  }
  auto generation = load_model_generation_config(*checkpoint);
  auto model = load_model(*checkpoint, backend, flags);
  LoadedModel loaded;
  if (text.valid()) {
    CAIRN_ASSIGN_OR_RETURN(loaded.text, text.get());
  }
  CAIRN_ASSIGN_OR_RETURN(loaded.generation, std::move(generation));
  CAIRN_ASSIGN_OR_RETURN(loaded.model, std::move(model));
  loaded.n_ids = loaded.model->spec().vocab_size;
  if (loaded.text.tokenizer) {
    loaded.n_ids = std::min(loaded.n_ids, loaded.text.tokenizer->vocab_end());
  }
  loaded.stop_ids = stop_ids_of(loaded.generation, loaded.n_ids);
  return loaded;
}

}  // namespace cairn::cli
