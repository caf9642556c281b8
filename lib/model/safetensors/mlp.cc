#include "lib/model/safetensors/mlp.h"

#include <cmath>
#include <numbers>
#include <vector>

namespace hif8 {

std::string MlpWriter::Write(const std::string& x, const MlpNames& names, int64_t width) {
  const std::string& p = names.prefix;
  std::string gate, up;
  if (names.fused.empty() && names.gate.empty()) {
    const auto in = e_.Activation(x, p + names.up + ".input");
    gate = e_.Linear(in, p + names.up, width, s_.hidden, s_.mlp.bias);
  } else if (names.fused.empty()) {
    const auto in = e_.Activation(x, p + names.gate + ".input");
    gate = e_.Linear(in, p + names.gate, width, s_.hidden, s_.mlp.bias);
    up = e_.Linear(in, p + names.up, width, s_.hidden, s_.mlp.bias);
  } else {
    const auto in = e_.Activation(x, p + names.fused + ".input");
    const auto halves =
        g_.Nodes("Split", {e_.Linear(in, p + names.fused, 2 * width, s_.hidden, s_.mlp.bias)}, 2,
                 {{"axis", int64_t{-1}}});
    gate = halves[0];
    up = halves[1];
  }
  const std::string activated = up.empty() ? Activated(gate) : Gated(gate, up);
  const auto product = e_.Activation(activated, p + names.down + ".input");
  return e_.Linear(product, p + names.down, s_.hidden, width, s_.mlp.bias);
}

std::string MlpWriter::JointExpert(const std::string& rows) {
  const ExpertsSpec& x = s_.experts;
  const auto bias = [&](const std::string& name) { return x.bias ? name + "_bias" : ""; };
  const auto linear = [&](const std::string& input, const std::string& name, int64_t out,
                          int64_t in) {
    const auto operand = e_.Activation(input, name + ".input");
    return e_.LinearInOut(operand, name, out, in, bias(name));
  };
  const std::string both = linear(rows, x.fused_gate_up, 2 * x.intermediate, s_.hidden);
  std::vector<std::string> halves;
  if (x.interleaved) {
    const std::string pairs = g_.Node("Reshape", {both, g_.Integers({-1, x.intermediate, 2})});
    for (const std::string& half : g_.Nodes("Split", {pairs}, 2, {{"axis", int64_t{-1}}})) {
      halves.push_back(g_.Node("Reshape", {half, g_.Integers({-1, x.intermediate})}));
    }
  } else {
    halves = g_.Nodes("Split", {both}, 2, {{"axis", int64_t{-1}}});
  }
  return linear(Gated(halves[0], halves[1]), x.fused_down, s_.hidden, x.intermediate);
}

std::string MlpWriter::Sigmoid(const std::string& x, double alpha) {
  return g_.Node("Sigmoid", {e_.Times(x, alpha)});
}

std::string MlpWriter::Gated(const std::string& gate, const std::string& up) {
  if (s_.mlp.activation != ActivationFunction::kClampedSwiglu) {
    return g_.Node("Mul", {Activated(gate), up});
  }
  const std::string most = g_.Scalar(static_cast<float>(s_.mlp.limit));
  const std::string least = g_.Scalar(static_cast<float>(-s_.mlp.limit));
  const std::string clamped = g_.Node("Min", {gate, most});
  const std::string glu = g_.Node("Mul", {clamped, Sigmoid(clamped, s_.mlp.alpha)});
  const std::string more = g_.Node("Add", {g_.Node("Clip", {up, least, most}), g_.Scalar(1)});
  return g_.Node("Mul", {more, glu});
}

std::string MlpWriter::Activated(const std::string& x) {
  switch (s_.mlp.activation) {
    case ActivationFunction::kGelu: {
      const std::string erf = g_.Node("Erf", {e_.Times(x, 1 / std::numbers::sqrt2)});
      return e_.Times(g_.Node("Mul", {x, g_.Node("Add", {erf, g_.Scalar(1)})}), 0.5);
    }
    case ActivationFunction::kGeluTanh: {
      const std::string cube = g_.Node("Mul", {g_.Node("Mul", {x, x}), x});
      const std::string inner =
          e_.Times(g_.Node("Add", {x, e_.Times(cube, 0.044715)}), std::sqrt(2 / std::numbers::pi));
      const std::string more = g_.Node("Add", {g_.Node("Tanh", {inner}), g_.Scalar(1)});
      return e_.Times(g_.Node("Mul", {x, more}), 0.5);
    }
    case ActivationFunction::kQuickGelu:
      return g_.Node("Mul", {x, Sigmoid(x, 1.702)});
    case ActivationFunction::kRelu:
      return g_.Node("Relu", {x});
    case ActivationFunction::kSilu:
    case ActivationFunction::kClampedSwiglu:
      break;
  }
  return g_.Node("Mul", {x, Sigmoid(x, 1)});
}

}  // namespace hif8
