// What a model looks like to the rest of the project, whatever file it came from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/numeric/block_scale.h"
#include "lib/numeric/scale_layout.h"

namespace hif8 {

// A constant tensor that layers use as weight. Shared by all its layers: quantized and stored once.
struct Weight {
  std::string name;  // initializer or tensor name
  DType dtype = DType::kF32;
  Shape shape;             // as stored
  ChannelLayout channels;  // per output channel; one scale for all where no channel axis exists
  std::string note;        // why the granularity is coarser than asked, or empty
  // Runs of rows that an operator of layout cann gives the scales of the first (DeepSeek-V4's
  // wo_a).
  size_t row_groups = 1;
  bool kernel = false;  // of a convolution, in a file that has no scales of its blocks

  size_t size() const { return ElementCount(shape); }
};

// A place where activations are observed and quantized: one tensor, shared by all layers that read
// it.
struct Activation {
  std::string name;  // tensor (ONNX) or module input (checkpoints), unique in the model
  // The dimension that the layers sum over; negative: counted from the end.
  int input_axis = -1;
  int64_t inputs = 0;       // its elements; -1: not known; 0: needless to know beforehand
  bool mixed_axes = false;  // layers that read it sum over different dimensions
};

// Tells what a layer quantizes besides the tensor that it reads.
enum class LayerKind : uint8_t {
  kWeight,   // its weight
  kProduct,  // the other operand of a product of two activations
  kCache,    // nothing: a tensor that attention keeps
};
// Returns "weight", "product" or "cache".
constexpr std::string_view NameOf(LayerKind kind) {
  return kind == LayerKind::kWeight ? "weight" : kind == LayerKind::kProduct ? "product" : "cache";
}

// Says how much of a convolution's padding is before its input.
enum class ConvPadding : uint8_t { kGiven, kSameUpper, kSameLower };

// Describes what a convolution's kernel meets. Lists have an entry for each spatial dimension,
// `pads` those before, then those behind.
struct ConvWindow {
  int64_t groups = 1;
  Shape kernel, strides, dilations, pads;
  ConvPadding padding = ConvPadding::kGiven;
};

// A place to quantize.
struct Layer {
  std::string name;  // unique: node name made unique, or module name
  LayerKind kind = LayerKind::kWeight;
  std::string op;              // "MatMul", "Conv", "Linear", ...
  int weight = -1;             // index into weights(), -1: none (a product of two activations)
  int activation = -1;         // index into activations(): the input; -1: weight-only layer
  int second_activation = -1;  // the other operand of a product of two activations
  int block = -1;              // transformer block number, -1: outside any
  std::optional<ConvWindow> window;  // of a convolution, where it is known
  double macs = 0;          // multiply-adds for one sample of a typical size, 0: unknown or none
  bool optional = false;    // quantized only when asked for (embeddings, attention products)
  std::string beside;       // why no run reaches it, or empty; then quantized when asked for
  std::string option;       // the recipe key that asks for it, with `optional`
  std::string fused;        // the module that loaders make of it and others, or empty
  std::string unsupported;  // why it cannot be quantized, or empty
};

// Identifies a model's contents, so that statistics and scales are not applied to another one.
struct Fingerprint {
  std::string files;        // names and sizes, for people
  std::string hash;         // 32 hexadecimal digits over every tensor's bytes in a fixed order
  uint64_t file_bytes = 0;  // of the files together
  bool operator==(const Fingerprint& other) const { return hash == other.hash; }
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::string_view kind() const = 0;  // "onnx" or "safetensors"
  virtual const std::filesystem::path& path() const = 0;
  virtual const std::vector<Layer>& layers() const = 0;
  virtual const std::vector<Weight>& weights() const = 0;
  virtual const std::vector<Activation>& activations() const = 0;
  // Elements of all floating-point constant tensors, embeddings and biases included: the base of
  // `coverage`.
  virtual uint64_t parameter_count() const = 0;
  // Says what is not certain about the layers, for people; empty where everything is.
  virtual std::string caveat() const { return {}; }
  // Tells whether its data may be images.
  virtual bool reads_images() const { return true; }
  // Returns the stored values. Throws kModel naming tensor and file when they cannot be read.
  virtual Tensor ReadWeight(int index) const = 0;
  // Opens the values to be read in pieces, in memory that does not grow with the weight where the
  // file allows. Valid as long as this object.
  virtual FloatSource OpenWeight(int index) const { return FloatSource(ReadWeight(index)); }
  virtual Fingerprint ComputeFingerprint() const = 0;
};

// A weight as written: codes in the weight's own element order and one scale per layout index.
struct EncodedWeight {
  std::string format;          // number format's name
  TileLayout layout;           // which codes share a scale
  std::vector<float> scales;   // layout.scale_count()
  std::vector<uint8_t> codes;  // layout.size()
  float global_scale = 1;      // see lib/numeric/scale_codes.h; the scales are divided by it
};

}  // namespace hif8
