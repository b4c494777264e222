// Mistral: every layer slides when sliding_window is set.
#include "model/families.h"

namespace cairn {

Result<ModelSpec> mistral_spec(const HfConfig& config) {
  CAIRN_ASSIGN_OR_RETURN(ModelSpec spec, dense_spec(config, "mistral"));
  CAIRN_RETURN_IF_ERROR(set_windows(config, &spec));
  return spec;
}

}  // namespace cairn
