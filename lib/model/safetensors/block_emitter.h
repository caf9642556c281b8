// Emits one part of a network (a block, the head) as a graph whose weights are inputs, with taps
// and quantization where they are asked for. The same description gives the outline of the part.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/model/graph.h"
#include "lib/model/model.h"
#include "lib/model/onnx/graph_builder.h"
#include "lib/model/safetensors/decoder_spec.h"
#include "lib/numeric/fake_quantize.h"

namespace hif8 {

// Names are relative to the part: "self_attn.q_proj", "self_attn.q_proj.input".

// A layer of a part.
struct PartLayer {
  std::string name;
  LayerKind kind = LayerKind::kWeight;
  std::string op;                 // "Linear", "Conv", "MatMul", "Cache"
  std::string activation;         // what it reads
  std::string second_activation;  // of a product
  std::string option;             // the recipe key that asks for it; empty: always quantized
  int second_axis = -1;           // the dimension of the second one that is summed over
};

// A graph input that is a constant of the model, as fp32.
struct PartConstant {
  std::string input;       // name of the graph input
  std::string tensor;      // name of the tensor, relative to the part
  Shape shape;             // that it must have; -1: any
  bool quantized = false;  // decoded from the written file instead of the original
};

struct PartTap {
  TapKind kind;
  std::string name;  // of an activation (kActivation) or a layer
};

struct PartGraph {
  RunnableGraph graph;
  std::vector<PartConstant> constants;
  std::vector<std::string> scales;  // activations whose scale is a graph input "<name>:scale"
  std::vector<std::string> clips;   // those that are clipped: "<name>:clip"
  std::vector<PartTap> taps;        // a tap's id is its position
  std::vector<PartLayer> layers;
};

enum class PartMode {
  kObserve,   // the original network; the activations asked for are observed
  kOriginal,  // the original network; activations and outputs compared with quantized ones, and
              // every layer's output observed
  kQuantized  // the quantized network; every layer's output observed
};

// An activation that a part fake-quantizes. The numbers of static scales are graph inputs, so that
// one session serves every block.
struct QuantizedInput {
  const FakeQuantize* how = nullptr;  // must outlive the part
  int axis = -1;                      // the dimension that the layers sum over
};

struct PartOptions {
  PartMode mode = PartMode::kObserve;
  std::set<std::string> observed;                // kObserve: activations to tap
  std::map<std::string, QuantizedInput> inputs;  // quantized activations
  std::set<std::string> weights;                 // layers whose weight is quantized
};

// The operator that rounds to a format's grid: name "QuantizeDequantize_<format>", to be registered
// as a native operator of the session; "DynamicQuantizeDequantize_<format>" with scales of its own.
inline constexpr const char* kQuantizeDomain = "calibration.quantize";
std::string QuantizeOperator(const QuantizedInput& input);

class BlockEmitter {
 public:
  explicit BlockEmitter(PartOptions options) : options_(std::move(options)) {}

  // A tensor in both networks; equal names where it is not quantized.
  struct Operand {
    std::string activation;  // name, empty: none that can be quantized
    std::string original, quantized;
  };

  GraphBuilder& graph() { return graph_; }
  // Adds a place where activations are observed and quantized. `tap` false: only quantized,
  // because another part observes it.
  Operand Activation(const std::string& x, const std::string& name, bool tap = true);
  // y = x W^T (+ b) with W "<name>.weight" of shape [out, in].
  std::string Linear(const Operand& x, const std::string& name, int64_t out, int64_t in, bool bias);
  // Adds a Linear with a weight of its own name, [in, out], and bias tensor (empty: none): one of
  // the experts that a tensor holds.
  std::string LinearInOut(const Operand& x, const std::string& name, int64_t out, int64_t in,
                          const std::string& bias);
  // Adds a convolution of x [1, channels, ...] with a weight of that shape, padded with 0 on all
  // sides.
  std::string Conv(const Operand& x, const std::string& name, const Shape& shape,
                   const std::vector<int64_t>& strides, int64_t padding, bool bias);
  // Multiplies two activations, batched over the leading dimensions. `b_axis`: the dimension
  // that is summed over in the second one as it was when it was quantized.
  std::string Product(const Operand& a, const Operand& b, int b_axis, const std::string& name);
  // Lists a layer whose weight is a constant that is never quantized.
  void NamedLayer(const std::string& name, const Operand& x) {
    part_.layers.push_back({name, LayerKind::kWeight, "Linear", x.activation, "", ""});
  }
  // Adds a tensor that is kept in the KV cache; returns what the running network goes on with.
  std::string Cache(const std::string& x, const std::string& name);
  // Norms over the last dimension, with the weight "<name>.weight" of `size`.
  std::string Norm(const NormKind& kind, const std::string& x, const std::string& name,
                   int64_t size);
  // x / rms(x)
  std::string DivideByRms(const std::string& x, double epsilon);
  // cap * tanh(x / cap)
  std::string SoftCap(const std::string& x, double cap);
  // x * factor; x itself where that is 1.
  std::string Times(const std::string& x, double factor);
  // Returns a tensor of the part.
  std::string Constant(const std::string& tensor, const Shape& shape);

  PartGraph Finish();

 private:
  bool Comparing() const { return options_.mode == PartMode::kOriginal; }
  int AddTap(TapKind kind, const std::string& name);
  const std::string& Running(const Operand& x) const;
  // A layer whose `form` makes its output from an input and a weight.
  template <typename Form>
  std::string WeightLayer(const char* op, const Operand& x, const std::string& name,
                          const Shape& shape, const Form& form);
  std::string LayerOutput(const std::string& y, const std::string& quantized,
                          const std::string& name);
  std::string QuantizeDequantize(const std::string& x, const std::string& name,
                                 const QuantizedInput& input);
  std::string QuantizedConstant(const std::string& tensor, const Shape& shape);

  PartOptions options_;
  GraphBuilder graph_;
  PartGraph part_;
  std::set<std::string> inputs_;  // graph inputs of constants and scales so far
};

}  // namespace hif8
