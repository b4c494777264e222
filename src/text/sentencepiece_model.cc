#include "text/sentencepiece_model.h"

#include <fmt/core.h>

#include <bit>
#include <optional>

#include "base/coding.h"
#include "text/utf8.h"

namespace cairn {

namespace {

constexpr size_t kPiecesMax = size_t{1} << 19U;  // the largest known models have 262,144

Status damaged(std::string_view what) {
  return Status::corruption(fmt::format("SentencePiece model: {}", what));
}

// One field of a message: its number and its value, of the kind that the wire type says.
struct Field {
  uint64_t number = 0;
  uint64_t value = 0;  // varint, 32-bit and 64-bit fields
  std::string_view bytes;
};

// Steps through the fields of a message. Source: the protocol buffers encoding, wire types 0-2, 5.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  // The next field; nothing at the end, or at damage (see is_damaged()).
  std::optional<Field> next() {
    if (rest_.empty() || is_damaged_) return std::nullopt;
    const auto key = varint();
    Field field;
    field.number = key >> 3U;
    switch (key & 7U) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.value = fixed<uint64_t>();
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.value = fixed<uint32_t>();
        break;
      default:
        is_damaged_ = true;
    }
    if (is_damaged_ || field.number == 0) {
      is_damaged_ = true;
      return std::nullopt;
    }
    return field;
  }

  bool is_damaged() const { return is_damaged_; }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    is_damaged_ = true;
    return 0;
  }

  std::string_view take(uint64_t n) {
    if (n > rest_.size()) {
      is_damaged_ = true;
      return {};
    }
    const std::string_view bytes = rest_.substr(0, static_cast<size_t>(n));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

  template <typename T>
  uint64_t fixed() {
    const std::string_view bytes = take(sizeof(T));
    return is_damaged_ ? 0 : load_le<T>(as_bytes(bytes).data());
  }

  std::string_view rest_;
  bool is_damaged_ = false;
};

Result<SentencePieceModel::Piece> read_piece(std::string_view message, size_t id) {
  SentencePieceModel::Piece piece;
  uint64_t type = 1;
  FieldReader fields(message);
  while (const auto field = fields.next()) {
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field->value));
    if (field->number == 3) type = field->value;
  }
  if (fields.is_damaged()) return damaged(fmt::format("piece {} is cut off", id));
  if (piece.text.empty()) return damaged(fmt::format("piece {} is empty", id));
  if (!utf8::is_valid(piece.text)) return damaged(fmt::format("piece {} is not UTF-8", id));
  if (type < 1 || type > 6)
    return damaged(fmt::format("piece {} has type {}, known are 1 to 6", id, type));
  piece.type = static_cast<SentencePieceModel::Type>(type);
  return piece;
}

Status read_trainer(std::string_view message, SentencePieceModel& model) {
  FieldReader fields(message);
  uint64_t kind = 1;
  while (const auto field = fields.next()) {
    if (field->number == 3) kind = field->value;
    if (field->number == 24) model.treats_space_as_suffix = field->value != 0;
    if (field->number == 35) model.has_byte_fallback = field->value != 0;
    if (field->number == 41) model.bos = static_cast<int32_t>(field->value);
    if (field->number == 42) model.eos = static_cast<int32_t>(field->value);
    if (field->number == 44) model.unknown_text = field->bytes;
  }
  if (fields.is_damaged()) return damaged("the trainer's settings are cut off");
  if (kind < 1 || kind > 4) return damaged(fmt::format("model type {}, known are 1 to 4", kind));
  model.kind = static_cast<SentencePieceModel::Kind>(kind);
  return Status::ok();
}

Status read_normalizer(std::string_view message, SentencePieceModel& model) {
  FieldReader fields(message);
  while (const auto field = fields.next()) {
    if (field->number == 2) model.characters_map = field->bytes;
    if (field->number == 3) model.adds_dummy_prefix = field->value != 0;
    if (field->number == 4) model.removes_extra_spaces = field->value != 0;
    if (field->number == 5) model.escapes_spaces = field->value != 0;
  }
  return fields.is_damaged() ? damaged("the normalizer's settings are cut off") : Status::ok();
}

Status read_denormalizer(std::string_view message, SentencePieceModel& model) {
  FieldReader fields(message);
  while (const auto field = fields.next()) {
    if (field->number == 2) model.decoder_map = field->bytes;
  }
  return fields.is_damaged() ? damaged("the denormalizer's settings are cut off") : Status::ok();
}

Status find_unknown(SentencePieceModel& model) {
  size_t n_unknown = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != SentencePieceModel::Type::kUnknown) continue;
    model.unknown = static_cast<uint32_t>(id);
    ++n_unknown;
  }
  if (n_unknown == 1) return Status::ok();
  return damaged(
      fmt::format("{} of {} pieces are the unknown one", n_unknown, model.pieces.size()));
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece_model(std::string_view bytes) {
  SentencePieceModel model;
  FieldReader fields(bytes);
  while (const auto field = fields.next()) {
    if (field->number == 1) {
      CAIRN_ASSIGN_OR_RETURN(const auto piece, read_piece(field->bytes, model.pieces.size()));
      if (model.pieces.size() == kPiecesMax) {
        return Status::unsupported(fmt::format(
            "SentencePiece model: more than {} pieces; that is the most supported", kPiecesMax));
      }
      model.pieces.push_back(piece);
    }
    if (field->number == 2) CAIRN_RETURN_IF_ERROR(read_trainer(field->bytes, model));
    if (field->number == 3) CAIRN_RETURN_IF_ERROR(read_normalizer(field->bytes, model));
    if (field->number == 5) CAIRN_RETURN_IF_ERROR(read_denormalizer(field->bytes, model));
  }
  if (fields.is_damaged())
    return damaged(fmt::format("cut off after {} pieces", model.pieces.size()));
  CAIRN_RETURN_IF_ERROR(find_unknown(model));
  return model;
}

}  // namespace cairn
