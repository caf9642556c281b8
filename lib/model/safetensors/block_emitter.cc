#include "lib/model/safetensors/block_emitter.h"

#include <utility>

namespace hif8 {

std::string QuantizeOperator(const QuantizedInput& input) {
  return (input.how->dynamic ? "DynamicQuantizeDequantize_" : "QuantizeDequantize_") +
         std::string(input.how->format->name());
}

int BlockEmitter::AddTap(TapKind kind, const std::string& name) {
  part_.taps.push_back({kind, name});
  return static_cast<int>(part_.taps.size()) - 1;
}

BlockEmitter::Operand BlockEmitter::Activation(const std::string& x, const std::string& name,
                                               bool tap) {
  Operand operand{name, x, x};
  if (options_.mode == PartMode::kObserve) {
    if (tap && options_.observed.contains(name)) {
      operand.original = graph_.Observe(x, AddTap(TapKind::kActivation, name));
    }
    return operand;
  }
  const auto input = options_.inputs.find(name);
  if (input == options_.inputs.end()) return operand;
  operand.quantized = QuantizeDequantize(x, name, input->second);
  if (tap && Comparing()) {
    operand.original = graph_.Compare(x, operand.quantized, AddTap(TapKind::kActivation, name));
  }
  return operand;
}

std::string BlockEmitter::QuantizeDequantize(const std::string& x, const std::string& name,
                                             const QuantizedInput& input) {
  const std::string scale = name + ":scale";
  if (inputs_.insert(scale).second) {
    graph_.Input(scale, DType::kF32, {});
    part_.scales.push_back(name);
  }
  if (input.how->dynamic) {
    const TileScaling& scaling = *input.how->dynamic;
    return graph_.Node(QuantizeOperator(input), {x, scale},
                       {{std::string(kAxisAttribute), int64_t{input.axis}},
                        {std::string(kTileAttribute), static_cast<int64_t>(scaling.tile.inputs)},
                        {std::string(kPowerOfTwoAttribute), int64_t{scaling.power_of_two}},
                        {std::string(kTargetAttribute), scaling.target}},
                       kQuantizeDomain);
  }
  std::string clipped = x;
  if (input.how->clip) {
    const std::string clip = name + ":clip";
    if (inputs_.insert(clip).second) {
      graph_.Input(clip, DType::kF32, {});
      part_.clips.push_back(name);
    }
    clipped = graph_.Node("Clip", {x, graph_.Node("Neg", {clip}), clip});
  }
  return graph_.Node(QuantizeOperator(input), {clipped, scale}, {}, kQuantizeDomain);
}

const std::string& BlockEmitter::Running(const Operand& x) const {
  return options_.mode == PartMode::kQuantized ? x.quantized : x.original;
}

std::string BlockEmitter::Constant(const std::string& tensor, const Shape& shape) {
  if (inputs_.insert(tensor).second) {
    graph_.Input(tensor, DType::kF32, shape);
    part_.constants.push_back({tensor, tensor, shape, false});
  }
  return tensor;
}

std::string BlockEmitter::QuantizedConstant(const std::string& tensor, const Shape& shape) {
  const std::string input = tensor + ":quantized";
  if (inputs_.insert(input).second) {
    graph_.Input(input, DType::kF32, shape);
    part_.constants.push_back({input, tensor, shape, true});
  }
  return input;
}

// What the network goes on with: `y`, compared with `quantized` unless that is the same value.
std::string BlockEmitter::LayerOutput(const std::string& y, const std::string& quantized,
                                      const std::string& name) {
  std::string result = y;
  if (options_.mode == PartMode::kObserve) return result;
  if (Comparing() && quantized != y) {
    result = graph_.Compare(result, quantized, AddTap(TapKind::kOutput, name));
  }
  return graph_.Observe(result, AddTap(TapKind::kLayerOutput, name));
}

template <typename Form>
std::string BlockEmitter::WeightLayer(const char* op, const Operand& x, const std::string& name,
                                      const Shape& shape, const Form& form) {
  part_.layers.push_back({name, LayerKind::kWeight, op, x.activation, "", ""});
  const std::string tensor = name + ".weight";
  const bool quantized = options_.mode != PartMode::kObserve && options_.weights.contains(name);
  // A layer that is kept reads its input as it is, also where a quantized one shares it.
  if (options_.mode == PartMode::kQuantized && quantized) {
    return LayerOutput(form(x.quantized, QuantizedConstant(tensor, shape)), "", name);
  }
  const std::string y = form(x.original, Constant(tensor, shape));
  std::string other = y;
  if (Comparing() && quantized) other = form(x.quantized, QuantizedConstant(tensor, shape));
  return LayerOutput(y, other, name);
}

std::string BlockEmitter::Linear(const Operand& x, const std::string& name, int64_t out, int64_t in,
                                 bool bias) {
  return WeightLayer("Linear", x, name, {out, in},
                     [&](const std::string& input, const std::string& weight) {
                       std::vector<std::string> inputs = {input, weight};
                       if (bias) inputs.push_back(Constant(name + ".bias", {out}));
                       return graph_.Node("Gemm", inputs, {{"transB", int64_t{1}}});
                     });
}

std::string BlockEmitter::LinearInOut(const Operand& x, const std::string& name, int64_t out,
                                      int64_t in, const std::string& bias) {
  return WeightLayer("Linear", x, name, {in, out},
                     [&](const std::string& input, const std::string& weight) {
                       std::vector<std::string> inputs = {input, weight};
                       if (!bias.empty()) inputs.push_back(Constant(bias, {1, out}));
                       return graph_.Node("Gemm", inputs);
                     });
}

std::string BlockEmitter::Conv(const Operand& x, const std::string& name, const Shape& shape,
                               const std::vector<int64_t>& strides, int64_t padding, bool bias) {
  const std::vector<int64_t> pads(2 * strides.size(), padding);
  return WeightLayer("Conv", x, name, shape,
                     [&](const std::string& input, const std::string& weight) {
                       std::vector<std::string> inputs = {input, weight};
                       if (bias) inputs.push_back(Constant(name + ".bias", {shape.front()}));
                       return graph_.Node("Conv", inputs, {{"strides", strides}, {"pads", pads}});
                     });
}

std::string BlockEmitter::Product(const Operand& a, const Operand& b, int b_axis,
                                  const std::string& name) {
  part_.layers.push_back(
      {name, LayerKind::kProduct, "MatMul", a.activation, b.activation, "attention", b_axis});
  const std::string y = graph_.Node("MatMul", {Running(a), Running(b)});
  const bool quantized = a.quantized != a.original || b.quantized != b.original;
  if (!quantized) return y;
  const std::string other = Comparing() ? graph_.Node("MatMul", {a.quantized, b.quantized}) : y;
  return LayerOutput(y, other, name);
}

std::string BlockEmitter::Cache(const std::string& x, const std::string& name) {
  const Operand operand = Activation(x, name);
  part_.layers.push_back({name, LayerKind::kCache, "Cache", name, "", "kv_cache"});
  return Running(operand);
}

std::string BlockEmitter::DivideByRms(const std::string& x, double epsilon) {
  const std::string square = graph_.Node("Mul", {x, x});
  const std::string mean = graph_.Node(
      "ReduceMean", {square}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}});
  const std::string rms =
      graph_.Node("Sqrt", {graph_.Node("Add", {mean, graph_.Scalar(static_cast<float>(epsilon))})});
  return graph_.Node("Div", {x, rms});
}

std::string BlockEmitter::Norm(const NormKind& kind, const std::string& x, const std::string& name,
                               int64_t size) {
  if (kind.type == NormType::kLayer) {
    std::vector<std::string> inputs = {x, Constant(name + ".weight", {size})};
    if (kind.bias) inputs.push_back(Constant(name + ".bias", {size}));
    return graph_.Node("LayerNormalization", inputs,
                       {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(kind.epsilon)}});
  }
  const std::string divided = DivideByRms(x, kind.epsilon);
  std::string weight = Constant(name + ".weight", {size});
  if (kind.type == NormType::kRmsPlusOne) weight = graph_.Node("Add", {weight, graph_.Scalar(1)});
  return graph_.Node("Mul", {divided, weight});
}

std::string BlockEmitter::SoftCap(const std::string& x, double cap) {
  const std::string limit = graph_.Scalar(static_cast<float>(cap));
  return graph_.Node("Mul", {graph_.Node("Tanh", {graph_.Node("Div", {x, limit})}), limit});
}

std::string BlockEmitter::Times(const std::string& x, double factor) {
  return factor == 1 ? x : graph_.Node("Mul", {x, graph_.Scalar(static_cast<float>(factor))});
}

PartGraph BlockEmitter::Finish() {
  part_.graph = graph_.Finish();
  return std::move(part_);
}

}  // namespace hif8
