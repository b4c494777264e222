#include "model/model.h"

#include <utility>

#include "base/file_system.h"
#include "formats/checkpoint.h"
#include "formats/content_identity.h"
#include "formats/model_config.h"
#include "model/decoder.h"
#include "model/weights.h"

namespace cairn {

struct Model::Impl {
  Impl(ModelSpec model_spec, ModelWeights packed, const Digest& model_identity, Backend& device)
      : spec(std::move(model_spec)),
        weights(std::move(packed)),
        identity(model_identity),
        backend(device),
        decoder(spec, weights, device) {}

  const ModelSpec spec;
  const ModelWeights weights;
  const Digest identity;
  Backend& backend;
  Decoder decoder;
};

Result<std::unique_ptr<Model>> Model::load(const std::string& model_dir,
                                           Backend& backend,
                                           const LoadOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint,
                         Checkpoint::open(model_dir));
  CAIRN_ASSIGN_OR_RETURN(const HfConfig config, load_model_config(*checkpoint));
  auto spec = make_model_spec(config);
  if (!spec.is_ok()) return spec.status().with_prefix(model_dir);
  // Packing comes first because it finds what is wrong with a checkpoint sooner than hashing would.
  auto weights = load_weights(
      *checkpoint, *spec, config.affine ? &*config.affine : nullptr, backend, options.progress);
  if (!weights.is_ok()) return weights.status().with_prefix(model_dir);
  if (options.progress) options.progress(1.0, "hashing the weights");
  CAIRN_ASSIGN_OR_RETURN(
      const Digest content,
      content_identity(posix_file_system(), checkpoint->files(), options.identity_cache_dir));
  const Digest identity = Sha256()
                              .update_field("cairn.model.1")
                              .update(spec->digest().bytes)
                              .update(content.bytes)
                              .finish();
  return std::unique_ptr<Model>(new Model(std::make_unique<Impl>(
      std::move(spec).value(), std::move(weights).value(), identity, backend)));
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Model::~Model() = default;

const ModelSpec& Model::spec() const {
  return impl_->spec;
}

const Digest& Model::identity() const {
  return impl_->identity;
}

uint64_t Model::weight_bytes() const {
  return impl_->weights.n_bytes;
}

Backend& Model::backend() const {
  return impl_->backend;
}

Result<Model::StepLogits> Model::forward(std::span<const StepRows> rows,
                                         const CacheGeometry& geometry) {
  return impl_->decoder.forward(rows, geometry);
}

}  // namespace cairn
