// The interface of a number format: at most 8 bits per element, described by its decode table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/core/dtype.h"
#include "lib/core/registry.h"

namespace hif8 {

// Says what happens to finite values that round beyond the largest finite one.
enum class Overflow {
  kSaturate,  // to the largest finite value (quantization)
  kInfinity   // to infinity, where the format has one; else as kSaturate
};

// The scale of a run of values: one for all of them, or one per value.
// A scale is a normal positive fp32: x ~ scale * decode(code), code = encode(x / scale) with the
// division done in IEEE fp32.
struct ScaleOperand {
  const float* values;
  bool per_value;  // false: values[0] for all; true: values[i] for x[i]

  static ScaleOperand One(const float& scale) { return {&scale, false}; }
  static ScaleOperand PerValue(const float* scales) { return {scales, true}; }
};

// Says how scales are stored, and so which values they can take.
enum class ScaleEncoding {
  kFp32,  // any normal fp32
  kE8M0   // a power of two, 2^-127 ... 2^127
};

// Scales that belong to a format by its name: one per tile of outputs x inputs of a weight, and of
// rows x inputs of an activation. "Inputs" is the axis that the layer sums over.
struct TileScales {
  struct Tile {
    size_t rows;
    size_t inputs;
    bool operator==(const Tile&) const = default;
  };
  Tile weight;
  Tile activation;
  ScaleEncoding encoding;
};

// The usual tiles: groups (OCP MX) of weights and activations, blocks of weights and of activations
// (DeepSeek-V3).
inline constexpr TileScales::Tile kGroupTile{1, 32};
inline constexpr TileScales::Tile kWeightBlock{128, 128};
inline constexpr TileScales::Tile kActivationBlock{1, 128};

class NumberFormat {
 public:
  virtual ~NumberFormat() = default;

  // Returns the name in recipes: "hif8", "fp8_e4m3", ...
  virtual std::string_view name() const = 0;
  // Returns one line for --list formats.
  virtual std::string_view description() const = 0;
  virtual int bits() const { return 8; }
  // Returns the scales that the name prescribes; nothing where the recipe's granularity decides.
  virtual std::optional<TileScales> tile_scales() const { return std::nullopt; }
  ScaleEncoding scale_encoding() const {
    return tile_scales() ? tile_scales()->encoding : ScaleEncoding::kFp32;
  }
  // Returns the value of every code, 2^bits() of them; NaN and infinities included. The primary
  // definition: limits follow from it.
  virtual std::span<const float> DecodeTable() const = 0;
  // Smallest |x / scale| that counts as saturated: where rounding leaves the finite range (HiF8:
  // 40960).
  virtual float OverflowThreshold() const = 0;
  // The magnitude that the reference is mapped to when a recipe names none (HiF8: 16).
  virtual float DefaultTarget() const = 0;
  // Returns the target of a token's own scale, where no later value can exceed the reference.
  virtual float TokenTarget() const { return DefaultTarget(); }
  // True when values beyond the largest finite one are clipped often enough that a scale search
  // should try scales below amax / max (all formats but the tapered ones, whose target is far below
  // their maximum).
  virtual bool ClipsAtMax() const { return true; }

  // Largest finite value and smallest positive value, from the table.
  float MaxFinite() const;
  float MinPositive() const;

  // Returns the scalar reference: the code of x (already scaled). Slow; the oracle of every other
  // path. Where a format has no NaN, NaN becomes zero; where it has no infinity, or never keeps one
  // when saturating (FP8), an infinity becomes the largest finite value. HiF8 keeps infinities.
  virtual uint8_t EncodeOne(float x, Overflow overflow) const = 0;

  // codes[i] = EncodeOne(fp32(x[i]) / scale); a finite x[i] whose quotient overflows fp32 saturates
  // as any other finite value. `x` holds n = codes.size() elements of dtype F32, F16
  // or BF16 at any alignment. Bit-identical to the reference on every machine.
  virtual void Encode(DType dtype, const std::byte* x, ScaleOperand scale, std::span<uint8_t> codes,
                      Overflow overflow = Overflow::kSaturate) const = 0;
  // y[i] = table[codes[i]] * scale, one fp32 product.
  virtual void Decode(std::span<const uint8_t> codes, ScaleOperand scale,
                      std::span<float> y) const = 0;
  // y[i] = table[encode(x[i] / scale)] * scale, saturating, except that infinities and NaN pass
  // through. x and y may be the same span.
  virtual void QuantizeDequantize(std::span<const float> x, ScaleOperand scale,
                                  std::span<float> y) const = 0;
};

using FormatRegistry = Registry<NumberFormat>;

}  // namespace hif8
