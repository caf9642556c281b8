// Writes a tokenizer.model as SentencePiece's sentencepiece_model.proto defines it, without the
// library.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace hif8 {

enum class PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };

struct Piece {
  std::string text;
  float score;
  PieceType type;
};

inline std::string ProtoVarint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string ProtoNumber(int field, uint64_t value) {
  return ProtoVarint(static_cast<uint64_t>(field) << 3) + ProtoVarint(value);
}
inline std::string ProtoBytes(int field, const std::string& value) {
  return ProtoVarint(static_cast<uint64_t>(field) << 3 | 2) + ProtoVarint(value.size()) + value;
}
inline std::string ProtoFloat(int field, float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return ProtoVarint(static_cast<uint64_t>(field) << 3 | 5) + bytes;
}

// A BPE model as Llama's: byte fallback, no normalization but a space in front and U+2581 for
// spaces.
inline std::string SentencePieceModel(const std::vector<Piece>& pieces) {
  std::string model;
  for (const Piece& piece : pieces) {
    model += ProtoBytes(1, ProtoBytes(1, piece.text) + ProtoFloat(2, piece.score) +
                               ProtoNumber(3, static_cast<uint64_t>(piece.type)));
  }
  const std::string trainer = ProtoNumber(3, 2) + ProtoNumber(35, 1);
  const std::string normalizer =
      ProtoBytes(1, "identity") + ProtoNumber(3, 1) + ProtoNumber(4, 0) + ProtoNumber(5, 1);
  return model + ProtoBytes(2, trainer) + ProtoBytes(3, normalizer);
}

}  // namespace hif8
