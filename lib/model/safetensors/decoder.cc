#include "lib/model/safetensors/decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/model/safetensors/attention.h"
#include "lib/model/safetensors/linear_attention.h"
#include "lib/model/safetensors/mlp.h"

namespace hif8 {
namespace {

class BlockWriter {
 public:
  BlockWriter(const DecoderSpec& spec, PartOptions options)
      : s_(spec), e_(std::move(options)), g_(e_.graph()), mlp_(spec, e_) {}

  PartGraph WriteExpert(bool fused) {
    const std::string rows = g_.Input("rows", DType::kF32, {-1, s_.hidden});
    const ExpertsSpec& x = s_.experts;
    const std::string out = fused && x.joint()
                                ? mlp_.JointExpert(rows)
                                : mlp_.Write(rows, {"", x.gate, x.up, x.down, ""}, x.intermediate);
    g_.Output(out, "rows_out", DType::kF32, {-1, s_.hidden});
    return e_.Finish();
  }

  PartGraph Write(BlockKind kind) {
    const std::string hidden = g_.Input("hidden", DType::kF32, {-1, s_.hidden});
    const std::string normed = kind.input_norm ? Norm(hidden, s_.norm.input) : hidden;
    const std::string attention =
        kind.linear ? LinearAttention(s_, e_, normed) : AttentionWriter(s_, kind, e_).Write(normed);
    const std::string attended =
        Norm(Join(hidden, Norm(attention, s_.norm.attention_output)), s_.norm.attention_sum);
    const std::string ready = s_.parallel ? normed : Norm(attended, s_.norm.mlp_input);
    if (kind.sparse) {
      WriteSparse(attended, ready);
    } else {
      const MlpSpec& m = s_.mlp;
      const std::string mlp =
          mlp_.Write(ready, {m.prefix, m.gate, m.up, m.down, m.fused}, s_.intermediate);
      const std::string sum = Join(attended, Norm(mlp, s_.norm.mlp_output));
      g_.Output(Norm(sum, s_.norm.mlp_sum), "hidden_out", DType::kF32, {-1, s_.hidden});
    }
    return e_.Finish();
  }

 private:
  std::string Norm(const std::string& x, const std::string& name) {
    return name.empty() ? x : e_.Norm(s_.norm, x, name, s_.hidden);
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
      std::string shared = mlp_.Write(ready, {x.shared_prefix, m.gate, m.up, m.down, ""}, x.shared);
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

  const DecoderSpec& s_;
  BlockEmitter e_;
  GraphBuilder& g_;
  MlpWriter mlp_;
};

}  // namespace

PartGraph DecoderBlock(const DecoderSpec& spec, BlockKind kind, PartOptions options) {
  return BlockWriter(spec, std::move(options)).Write(kind);
}

PartGraph DecoderExpert(const DecoderSpec& spec, bool fused, PartOptions options) {
  return BlockWriter(spec, std::move(options)).WriteExpert(fused);
}

std::vector<float> AttentionMask(int64_t length, const MaskSpec& spec) {
  std::vector<float> mask(static_cast<size_t>(length * length),
                          -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < length; ++i) {
    int64_t first = 0;
    int64_t end = spec.causal ? i + 1 : length;
    if (spec.window > 0) {
      first = std::max(first, i - spec.window + 1);
      end = std::min(end, i + spec.window);
    }
    if (spec.chunk > 0) {
      first = std::max(first, i / spec.chunk * spec.chunk);
      end = std::min(end, (i / spec.chunk + 1) * spec.chunk);
    }
    for (int64_t j = first; j < end; ++j) mask[static_cast<size_t>(i * length + j)] = 0;
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
