#include "lib/model/safetensors/decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "lib/model/safetensors/attention.h"
#include "lib/model/safetensors/linear_attention.h"

namespace hif8 {
namespace {

class BlockWriter {
 public:
  BlockWriter(const DecoderSpec& spec, PartOptions options)
      : s_(spec), e_(std::move(options)), g_(e_.graph()) {}

  PartGraph WriteExpert(bool fused) {
    const std::string rows = g_.Input("rows", DType::kF32, {-1, s_.hidden});
    const ExpertsSpec& x = s_.experts;
    const std::string out = fused && x.joint()
                                ? JointExpert(rows)
                                : Mlp(rows, {"", x.gate, x.up, x.down, ""}, x.intermediate);
    g_.Output(out, "rows_out", DType::kF32, {-1, s_.hidden});
    return e_.Finish();
  }

  PartGraph Write(BlockKind kind) {
    const std::string hidden = g_.Input("hidden", DType::kF32, {-1, s_.hidden});
    const std::string normed = Norm(hidden, s_.norm.input);
    const std::string attention =
        kind.linear ? LinearAttention(s_, e_, normed) : AttentionWriter(s_, kind, e_).Write(normed);
    const std::string attended = Join(hidden, Norm(attention, s_.norm.attention_output));
    const std::string ready = s_.parallel ? normed : Norm(attended, s_.norm.mlp_input);
    if (kind.sparse) {
      WriteSparse(attended, ready);
    } else {
      const MlpSpec& m = s_.mlp;
      const std::string mlp =
          Mlp(ready, {m.prefix, m.gate, m.up, m.down, m.fused}, s_.intermediate);
      g_.Output(Join(attended, Norm(mlp, s_.norm.mlp_output)), "hidden_out", DType::kF32,
                {-1, s_.hidden});
    }
    return e_.Finish();
  }

 private:
  struct MlpNames {
    std::string prefix, gate, up, down, fused;
  };

  std::string Norm(const std::string& x, const std::string& name) {
    return name.empty() ? x : e_.Norm(s_.norm.type, x, name, s_.hidden, s_.norm.epsilon);
  }

  std::string Join(const std::string& x, const std::string& y) {
    return g_.Node("Add", {x, e_.Times(y, s_.residual_multiplier)});
  }

  // What the shared expert adds is in "hidden_out" already.
  void WriteSparse(const std::string& attended, const std::string& ready) {
    const ExpertsSpec& x = s_.experts;
    const auto in = e_.Activation(ready, x.router + ".input");
    const std::string logits = e_.Linear(in, x.router, x.count, s_.hidden, x.router_bias);
    std::string sum = attended;
    if (x.shared > 0) {
      const MlpSpec& m = s_.mlp;
      std::string shared = Mlp(ready, {x.shared_prefix, m.gate, m.up, m.down, ""}, x.shared);
      if (!x.shared_gate.empty()) {
        const std::string gate = e_.Linear(in, x.shared_gate, 1, s_.hidden, false);
        shared = g_.Node("Mul", {shared, g_.Node("Sigmoid", {gate})});
      }
      sum = Join(sum, shared);
    }
    g_.Output(sum, "hidden_out", DType::kF32, {-1, s_.hidden});
    g_.Output(ready, "normed", DType::kF32, {-1, s_.hidden});
    g_.Output(logits, "router", DType::kF32, {-1, x.count});
  }

  // down(act(gate(x)) * up(x))
  std::string Mlp(const std::string& x, const MlpNames& names, int64_t width) {
    const std::string& p = names.prefix;
    std::string gate, up;
    if (names.fused.empty()) {
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
    const auto product = e_.Activation(Gated(gate, up), p + names.down + ".input");
    return e_.Linear(product, p + names.down, s_.hidden, width, s_.mlp.bias);
  }

  std::string JointExpert(const std::string& rows) {
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

  std::string Sigmoid(const std::string& x, double alpha) {
    return g_.Node("Sigmoid", {e_.Times(x, alpha)});
  }

  // act(gate) * up
  std::string Gated(const std::string& gate, const std::string& up) {
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

  std::string Activated(const std::string& x) {
    switch (s_.mlp.activation) {
      case ActivationFunction::kGelu: {
        const std::string erf = g_.Node("Erf", {e_.Times(x, 1 / std::numbers::sqrt2)});
        return e_.Times(g_.Node("Mul", {x, g_.Node("Add", {erf, g_.Scalar(1)})}), 0.5);
      }
      case ActivationFunction::kGeluTanh: {
        const std::string cube = g_.Node("Mul", {g_.Node("Mul", {x, x}), x});
        const std::string inner = e_.Times(g_.Node("Add", {x, e_.Times(cube, 0.044715)}),
                                           std::sqrt(2 / std::numbers::pi));
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

  const DecoderSpec& s_;
  BlockEmitter e_;
  GraphBuilder& g_;
};

}  // namespace

PartGraph DecoderBlock(const DecoderSpec& spec, BlockKind kind, PartOptions options) {
  return BlockWriter(spec, std::move(options)).Write(kind);
}

PartGraph DecoderExpert(const DecoderSpec& spec, bool fused, PartOptions options) {
  return BlockWriter(spec, std::move(options)).WriteExpert(fused);
}

PartGraph DecoderNorm(const DecoderSpec& spec, PartOptions options) {
  BlockEmitter e(std::move(options));
  const std::string hidden = e.graph().Input("hidden", DType::kF32, {-1, spec.hidden});
  const std::string normed =
      e.Norm(spec.norm.type, hidden, spec.norm.final, spec.hidden, spec.norm.epsilon);
  const auto input = e.Activation(normed, spec.head + ".input");
  e.graph().Output(input.original, "normed", DType::kF32, {-1, spec.hidden});
  return e.Finish();
}

PartGraph DecoderHead(const DecoderSpec& spec, PartOptions options) {
  BlockEmitter e(std::move(options));
  const std::string normed = e.graph().Input("normed", DType::kF32, {-1, spec.hidden});
  // The final norm's graph observes it.
  const auto input = e.Activation(normed, spec.head + ".input", false);
  std::string logits = e.Linear(input, spec.head, -1, spec.hidden, false);
  logits = e.Times(logits, spec.logit_multiplier);
  if (spec.logit_cap != 0) logits = e.SoftCap(logits, spec.logit_cap);
  e.graph().Output(logits, "logits", DType::kF32, {-1, -1});
  return e.Finish();
}

std::vector<float> AttentionMask(int64_t length, const MaskSpec& spec) {
  std::vector<float> mask(static_cast<size_t>(length * length),
                          -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < length; ++i) {
    int64_t first = spec.window > 0 ? std::max<int64_t>(0, i - spec.window + 1) : 0;
    if (spec.chunk > 0) first = std::max(first, i / spec.chunk * spec.chunk);
    for (int64_t j = first; j <= i; ++j) mask[static_cast<size_t>(i * length + j)] = 0;
  }
  return mask;
}

std::vector<float> Temperatures(int64_t length, const TemperatureSpec& temperature) {
  std::vector<float> values;
  for (int64_t t = 0; t < length; ++t) {
    const double steps = std::floor(static_cast<double>(t + 1) / temperature.floor);
    values.push_back(static_cast<float>(1 + temperature.scale * std::log(1 + steps)));
  }
  return values;
}

}  // namespace hif8
