#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/fuzz/mutate_forms.h"

namespace hif8 {
namespace {

// Wire types of the protobuf encoding.
enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint64_t tag = 0;   // field number x 8 + wire type
  std::string bytes;  // the value as it stands; of kBytes without its length

  uint64_t wire() const { return tag & 7; }
};

std::optional<uint64_t> TakeVarint(std::string_view* bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 10 && i < bytes->size(); ++i) {
    const auto byte = static_cast<uint8_t>((*bytes)[i]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      bytes->remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

// The fields of a message, or nothing where the bytes are none.
std::optional<std::vector<Field>> Parse(std::string_view bytes) {
  std::vector<Field> fields;
  while (!bytes.empty()) {
    Field field;
    const std::optional<uint64_t> tag = TakeVarint(&bytes);
    if (!tag || *tag < 8) return std::nullopt;
    field.tag = *tag;
    uint64_t size = 0;
    if (field.wire() == kVarint) {
      const std::optional<uint64_t> value = TakeVarint(&bytes);
      if (!value) return std::nullopt;
      field.bytes = Varint(*value);
    } else if (field.wire() == kBytes) {
      const std::optional<uint64_t> length = TakeVarint(&bytes);
      if (!length) return std::nullopt;
      size = *length;
    } else if (field.wire() == kFixed32 || field.wire() == kFixed64) {
      size = field.wire() == kFixed32 ? 4 : 8;
    } else {
      return std::nullopt;
    }
    if (size > bytes.size()) return std::nullopt;
    if (field.wire() != kVarint) field.bytes = bytes.substr(0, size);
    bytes.remove_prefix(size);
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string Format(const std::vector<Field>& fields) {
  std::string bytes;
  for (const Field& field : fields) {
    bytes += Varint(field.tag);
    if (field.wire() == kBytes) bytes += Varint(field.bytes.size());
    bytes += field.bytes;
  }
  return bytes;
}

uint64_t UnusualNumber(uint64_t now, Dice* dice) {
  const std::array<uint64_t, 12> values = {0,
                                           1,
                                           2,
                                           8,
                                           16,
                                           now + 1,
                                           now - 1,
                                           INT32_MAX,
                                           INT64_MAX,
                                           UINT64_MAX,
                                           uint64_t{1} << 62,
                                           dice->Below(64)};
  return values[dice->Below(values.size())];
}

void ChangeValue(Field* field, Dice* dice) {
  if (field->wire() == kVarint) {
    std::string_view rest = field->bytes;
    field->bytes = Varint(UnusualNumber(TakeVarint(&rest).value_or(0), dice));
  } else if (field->wire() == kBytes) {
    // Most bytes that read as a message are one.
    field->bytes = MutateProtobuf(field->bytes, dice);
  } else {
    const size_t size = field->bytes.size();
    field->bytes = MutateBytes(field->bytes);
    field->bytes.resize(size);
  }
}

}  // namespace

std::string MutateProtobuf(const std::string& message, Dice* dice) {
  std::optional<std::vector<Field>> fields = Parse(message);
  if (!fields || fields->empty()) return MutateBytes(message);
  const size_t at = dice->Below(fields->size());
  const auto position = fields->begin() + static_cast<std::ptrdiff_t>(at);
  switch (dice->Below(12)) {
    case 0:
      fields->erase(position);
      break;
    case 1:
      fields->insert(position, Field((*fields)[dice->Below(fields->size())]));
      break;
    case 2:
      std::swap((*fields)[at].bytes, (*fields)[dice->Below(fields->size())].bytes);
      break;
    case 3:  // another field of the same wire type
      (*fields)[at].tag = ((1 + dice->Below(24)) << 3) | (*fields)[at].wire();
      break;
    case 4:
      return MutateBytes(message);
    default:
      ChangeValue(&(*fields)[at], dice);
  }
  return Format(*fields);
}

}  // namespace hif8
