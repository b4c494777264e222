#include "model/model.h"

#include <future>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/file_system.h"
#include "base/log.h"
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

namespace {

// Finds out what the weights' content is, on threads of its own: while the loader packs, both read
// the files in about the same order, so a cold disk is read once.
class ContentHashing {
 public:
  ContentHashing(std::vector<std::string> files, std::string cache_dir)
      : digest_(std::async(
            std::launch::async,
            [files = std::move(files), cache_dir = std::move(cache_dir), stop = stop_.get_token()] {
              return content_identity(posix_file_system(), files, cache_dir, 0, stop);
            })) {}

  ContentHashing(const ContentHashing&) = delete;
  ContentHashing& operator=(const ContentHashing&) = delete;
  ContentHashing(ContentHashing&&) = delete;
  ContentHashing& operator=(ContentHashing&&) = delete;

  // Calls the work off; the future waits for its end.
  ~ContentHashing() { stop_.request_stop(); }

  Result<Digest> get() { return digest_.get(); }

 private:
  std::stop_source stop_;
  std::future<Result<Digest>> digest_;
};

// The steps of Model::load that need the checkpoint, the spec and the options.
class ModelLoader {
 public:
  ModelLoader(const Checkpoint& checkpoint,
              const HfConfig& config,
              const ModelSpec& spec,
              Backend& backend,
              const LoadOptions& options)
      : checkpoint_(checkpoint),
        affine_(config.affine ? &*config.affine : nullptr),
        spec_(spec),
        backend_(backend),
        options_(options) {}

  struct Loaded {
    ModelWeights weights;
    Digest content;
  };

  Result<Loaded> load() {
    const std::vector<std::string> files = checkpoint_.files();
    const std::optional<Digest> known =
        remembered_content_identity(posix_file_system(), files, options_.identity_cache_dir);
    if (known) {
      const PackedCache cache = packed_cache(*known);
      std::optional<ModelWeights> weights = adopt(cache);
      if (weights) return Loaded{std::move(*weights), *known};
    }
    // Packing finds what is wrong with a checkpoint sooner than hashing would.
    ContentHashing hashing(files, options_.identity_cache_dir);
    CAIRN_ASSIGN_OR_RETURN(ModelWeights weights, load_packing(nullptr));
    report("hashing the weights");
    CAIRN_ASSIGN_OR_RETURN(const Digest content, hashing.get());
    keep(weights, packed_cache(content));
    return Loaded{std::move(weights), content};
  }

 private:
  PackedCache packed_cache(const Digest& content) const {
    const Digest key = Sha256()
                           .update_field("cairn.packed.1")
                           .update(content.bytes)
                           .update(spec_.digest().bytes)
                           .update_field(backend_.packing_version())
                           .finish();
    return {options_.packed, checkpoint_.files().front(), key};
  }

  Result<ModelWeights> load_packing(const PackedFile* packed) {
    return load_weights(checkpoint_, spec_, affine_, packed, backend_, options_.progress);
  }

  // The weights that an earlier start packed; nullopt when they have to be packed.
  std::optional<ModelWeights> adopt(const PackedCache& cache) {
    report("reading packed weights");
    const std::optional<PackedFile> file = cache.find();
    if (!file) return std::nullopt;
    Result<ModelWeights> weights = load_packing(&*file);
    if (weights.is_ok()) return std::move(weights).value();
    log_warning("packed weights do not fit and are made again: {}", weights.status().message());
    return std::nullopt;
  }

  void keep(const ModelWeights& weights, const PackedCache& cache) const {
    report("keeping packed weights for the next start");
    std::vector<std::span<const std::byte>> blobs;
    for (const auto& matrix : weights.matrices) blobs.push_back(matrix->bytes());
    cache.keep(blobs);
  }

  void report(std::string_view what) const {
    if (options_.progress) options_.progress(1.0, what);
  }

  const Checkpoint& checkpoint_;
  const AffineQuantization* affine_;
  const ModelSpec& spec_;
  Backend& backend_;
  const LoadOptions& options_;
};

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const std::string& model_dir,
                                           Backend& backend,
                                           const LoadOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint,
                         Checkpoint::open(model_dir));
  CAIRN_ASSIGN_OR_RETURN(const HfConfig config, load_model_config(*checkpoint));
  auto spec = make_model_spec(config);
  if (!spec.is_ok()) return spec.status().with_prefix(model_dir);
  auto loaded = ModelLoader(*checkpoint, config, *spec, backend, options).load();
  if (!loaded.is_ok()) return loaded.status().with_prefix(model_dir);
  const Digest identity = Sha256()
                              .update_field("cairn.model.1")
                              .update(spec->digest().bytes)
                              .update(loaded->content.bytes)
                              .finish();
  return std::unique_ptr<Model>(new Model(std::make_unique<Impl>(
      std::move(spec).value(), std::move(loaded->weights), identity, backend)));
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
