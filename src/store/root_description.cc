#include "store/root_description.h"

#include <fmt/core.h>

#include <limits>
#include <utility>

#include "base/json.h"
#include "store/object_format.h"

namespace cairn {
namespace {

constexpr uint64_t kFileBytesMax = uint64_t{1} << 20;
constexpr int kVersion = 1;

Status bad_field(std::string_view field, std::string_view wanted) {
  return Status::corruption(fmt::format("\"{}\" is missing or is not {}", field, wanted));
}

Result<std::string> text_field(const Json& json, const char* name) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_string()) return bad_field(name, "a text");
  return it->get<std::string>();
}

Result<uint32_t> number(const Json& value, std::string_view name) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
    return bad_field(name, "a number below 2^32");
  }
  return static_cast<uint32_t>(value.get<uint64_t>());
}

Result<uint32_t> number_field(const Json& json, const char* name) {
  const auto it = json.find(name);
  if (it == json.end()) return bad_field(name, "a number");
  return number(*it, name);
}

Result<Digest> digest_field(const Json& json, const char* name) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text, text_field(json, name));
  const std::optional<Digest> digest = digest_from_hex(text);
  if (!digest) return bad_field(name, "a digest of 64 hex digits");
  return *digest;
}

Json encode_group(const CacheGroup& group) {
  Json json;
  json["layers"] = group.layers;
  json["retention"] = "full";
  json["encoding"] = to_string(group.layout.encoding);
  json["n_kv_heads"] = group.layout.n_kv_heads;
  json["head_dim"] = group.layout.head_dim;
  return json;
}

Result<CacheGroup> decode_group(const Json& json, uint32_t page_tokens) {
  if (!json.is_object()) return bad_field("groups", "a list of objects");
  CacheGroup group;
  const auto layers = json.find("layers");
  if (layers == json.end() || !layers->is_array() || layers->size() > kMaxObjectLayers) {
    return bad_field("layers", "a list of layer numbers");
  }
  for (const Json& layer : *layers) {
    CAIRN_ASSIGN_OR_RETURN(const uint32_t layer_idx, number(layer, "layers"));
    group.layers.push_back(layer_idx);
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string retention, text_field(json, "retention"));
  if (retention != "full") {
    return Status::unsupported(
        fmt::format("retention \"{}\", this program reads \"full\"", retention));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string encoding, text_field(json, "encoding"));
  const auto parsed = parse_row_encoding(encoding);
  if (!parsed.is_ok()) return Status::unsupported(parsed.status().message());
  group.layout.encoding = *parsed;
  group.layout.n_layers = static_cast<uint32_t>(group.layers.size());
  CAIRN_ASSIGN_OR_RETURN(group.layout.n_kv_heads, number_field(json, "n_kv_heads"));
  CAIRN_ASSIGN_OR_RETURN(group.layout.head_dim, number_field(json, "head_dim"));
  group.layout.page_tokens = page_tokens;
  return group;
}

Result<RootDescription> decode(const Json& json) {
  if (!json.is_object()) return Status::corruption("not a JSON object");
  CAIRN_ASSIGN_OR_RETURN(const uint32_t version, number_field(json, "version"));
  if (version != kVersion) {
    return Status::unsupported(
        fmt::format("version {}, this program reads version {}", version, kVersion));
  }
  RootDescription out;
  CAIRN_ASSIGN_OR_RETURN(out.key, digest_field(json, "root"));
  CAIRN_ASSIGN_OR_RETURN(out.spec.model_label, text_field(json, "model"));
  CAIRN_ASSIGN_OR_RETURN(out.spec.model_identity, digest_field(json, "model_identity"));
  CAIRN_ASSIGN_OR_RETURN(out.spec.numerics_version, text_field(json, "numerics_version"));
  CAIRN_ASSIGN_OR_RETURN(out.spec.key_namespace, text_field(json, "namespace"));
  CAIRN_ASSIGN_OR_RETURN(out.spec.geometry.page_tokens, number_field(json, "page_tokens"));
  const auto groups = json.find("groups");
  if (groups == json.end() || !groups->is_array() || groups->size() > kMaxObjectGroups) {
    return bad_field("groups", "a list");
  }
  for (const Json& group : *groups) {
    CAIRN_ASSIGN_OR_RETURN(CacheGroup decoded, decode_group(group, out.spec.geometry.page_tokens));
    out.spec.geometry.groups.push_back(std::move(decoded));
  }
  if (root_key(out.spec) != out.key) {
    return Status::corruption(fmt::format(
        "its fields give the root {}, it says {}", to_hex(root_key(out.spec)), to_hex(out.key)));
  }
  return out;
}

}  // namespace

std::string encode_root_description(const RootSpec& spec) {
  Json json;
  json["version"] = kVersion;
  json["root"] = to_hex(root_key(spec));
  json["model"] = spec.model_label;
  json["model_identity"] = to_hex(spec.model_identity);
  json["numerics_version"] = spec.numerics_version;
  json["namespace"] = spec.key_namespace;
  json["page_tokens"] = spec.geometry.page_tokens;
  json["groups"] = Json::array();
  for (const CacheGroup& group : spec.geometry.groups)
    json["groups"].push_back(encode_group(group));
  return dump_json(json) + "\n";
}

Result<RootDescription> read_root_description(FileSystem& fs, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text, read_text_file(fs, path, kFileBytesMax));
  const auto json = parse_json(text, path);
  if (!json.is_ok()) return Status::corruption(json.status().message());
  auto decoded = decode(*json);
  if (!decoded.is_ok()) return decoded.status().with_prefix(path);
  return decoded;
}

}  // namespace cairn
