// The interface of a number format: at most 8 bits per element, described by its decode table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/core/dtype.h"
#include "lib/core/registry.h"
#include "lib/numeric/scale_layout.h"

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
  kE8M0,  // a power of two, 2^-127 ... 2^127
  kCodes  // a number of another format, divided by one fp32 number of the whole tensor
};

// One scale per tile of outputs x inputs of a weight, and of rows x inputs of an activation.
// "Inputs" is the axis that the layer sums over.
struct TileScales {
  struct Tile {
    size_t rows;
    size_t inputs;
    bool operator==(const Tile&) const = default;
  };
  Granularity granularity;  // what recipes call such tiles: kGroup or kBlock
  Tile weight;
  Tile activation;
};

class NumberFormat;

// Says how files hold codes and scales of a format: writers and readers ask it, in the place of the
// format's name.
struct FormatStorage {
  // The safetensors type of a code, of two where codes are packed, or of eight (kI32). kU8: no type
  // says whose codes they are, a file has to; kOpaque: such files have no type for them.
  DType dtype = DType::kU8;
  // ONNX's name of the element type; empty where there is none.
  std::string_view onnx_type = {};
  // The first operator set whose DequantizeLinear decodes them when they are written; 0: a function
  // of the format's own does.
  int64_t onnx_opset = 0;

  ScaleEncoding scale_encoding = ScaleEncoding::kFp32;
  const NumberFormat* scale_format = nullptr;  // of kCodes; outlives the format
  // The tiles that a recipe's granularity may ask for, the usual ones first.
  std::span<const TileScales> tiles = {};
  // Scales always belong to one of these tiles: the first where the recipe asks for none of them.
  bool tiled = false;

  // compressed-tensors' names: the type of an operand, the format of a layer with such weights
  // (empty: the format's name and "-quantized"), the type of scales where it has to be said.
  std::string_view operand_type = "float";
  std::string_view layer_format = {};
  std::string_view scale_dtype = {};
};

class NumberFormat {
 public:
  virtual ~NumberFormat() = default;

  // Returns the name in recipes: "hif8", "fp8_e4m3", ...
  virtual std::string_view name() const = 0;
  // Returns one line for --list formats.
  virtual std::string_view description() const = 0;
  virtual int bits() const { return 8; }
  // Returns whether files hold two codes a byte.
  bool packed() const { return bits() == 4; }
  // Says how files hold codes and scales.
  virtual const FormatStorage& storage() const;
  ScaleEncoding scale_encoding() const { return storage().scale_encoding; }
  // Returns whether a scale follows from its tile's largest magnitude, whatever the scale rule.
  bool ScalesFollowAmax() const { return scale_encoding() != ScaleEncoding::kFp32; }
  // Returns whether the scales of a tensor are stored over one number, see scale_codes.h.
  bool HasGlobalScale() const { return scale_encoding() == ScaleEncoding::kCodes; }
  // Returns the tiles of that granularity; the usual ones where scales always belong to tiles; null
  // where there are none.
  const TileScales* TilesFor(Granularity granularity) const;
  // Returns the usual tiles where scales always belong to tiles, else null.
  const TileScales* OwnTiles() const { return storage().tiled ? &storage().tiles[0] : nullptr; }
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

// Returns the first format that `holds` is true of, or null.
template <typename Holds>
const NumberFormat* FindFormat(const FormatRegistry& formats, const Holds& holds) {
  for (const std::string& name : formats.names()) {
    const NumberFormat& format = formats.Get(name);
    if (holds(format)) return &format;
  }
  return nullptr;
}

}  // namespace hif8
