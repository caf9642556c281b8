#include "lib/model/safetensors/linear_attention.h"

#include <cmath>
#include <vector>

namespace hif8 {
namespace {

class LinearAttentionWriter {
 public:
  LinearAttentionWriter(const DecoderSpec& spec, BlockEmitter& emitter)
      : s_(spec), l_(spec.linear), e_(emitter), g_(emitter.graph()) {}

  std::string Write(const std::string& normed) {
    const int64_t keys = l_.key_heads * l_.key_dim;
    const int64_t values = l_.value_heads * l_.value_dim;
    const int64_t group = l_.value_heads / l_.key_heads;
    const auto in = e_.Activation(normed, kPrefix + "in_proj_qkvz.input");
    const std::string all =
        e_.Linear(in, kPrefix + "in_proj_qkvz", 2 * keys + 2 * values, s_.hidden, false);
    const std::string gates =
        e_.Linear(in, kPrefix + "in_proj_ba", 2 * l_.value_heads, s_.hidden, false);
    // Rows are grouped by heads of keys.
    const int64_t wide = group * l_.value_dim;
    const auto parts = Split(Reshape(all, {-1, l_.key_heads, 2 * l_.key_dim + 2 * wide}),
                             {l_.key_dim, l_.key_dim, wide, wide});
    const std::string mixed =
        Convolve(g_.Node("Concat",
                         {Reshape(parts[0], {-1, keys}), Reshape(parts[1], {-1, keys}),
                          Reshape(parts[2], {-1, values})},
                         {{"axis", int64_t{-1}}}),
                 2 * keys + values);
    const auto qkv = Split(mixed, {keys, keys, values});
    const std::string q =
        e_.Times(Normalise(qkv[0]), 1 / std::sqrt(static_cast<double>(l_.key_dim)));
    const std::string k = Normalise(qkv[1]);
    const std::string v = Reshape(qkv[2], {-1, l_.value_heads, l_.value_dim});
    const auto ba = Split(Reshape(gates, {-1, l_.key_heads, 2 * group}), {group, group});
    const std::string beta = g_.Node("Sigmoid", {Reshape(ba[0], {-1, l_.value_heads})});
    const std::string decay = Decay(Reshape(ba[1], {-1, l_.value_heads}));
    const std::string o = g_.Node(std::string(kGatedDeltaRuleOp), {v, q, k, decay, beta}, {},
                                  std::string(kNetworkDomain));
    const std::string scaled =
        e_.Norm({NormType::kRms, s_.norm.epsilon, false}, o, kPrefix + "norm", l_.value_dim);
    const std::string z = Reshape(parts[3], {-1, l_.value_heads, l_.value_dim});
    const std::string gated = Reshape(g_.Node("Mul", {scaled, Silu(z)}), {-1, values});
    return e_.Linear(e_.Activation(gated, kPrefix + "out_proj.input"), kPrefix + "out_proj",
                     s_.hidden, values, false);
  }

 private:
  inline static const std::string kPrefix = "linear_attn.";
  static constexpr float kNormEpsilon = 1e-6F;

  std::string Reshape(const std::string& x, const std::vector<int64_t>& shape) {
    return g_.Node("Reshape", {x, g_.Integers(shape)});
  }
  std::vector<std::string> Split(const std::string& x, const std::vector<int64_t>& sizes) {
    return g_.Nodes("Split", {x, g_.Integers(sizes)}, sizes.size(), {{"axis", int64_t{-1}}});
  }
  std::string Silu(const std::string& x) { return g_.Node("Mul", {x, g_.Node("Sigmoid", {x})}); }

  // [T, channels]: every channel over the last positions, then silu.
  std::string Convolve(const std::string& x, int64_t channels) {
    const std::string weight = e_.Constant(kPrefix + "conv1d.weight", {channels, 1, l_.kernel});
    const std::string columns = Reshape(
        g_.Node("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}}), {1, channels, -1});
    const std::string y =
        g_.Node("Conv", {columns, weight},
                {{"group", channels}, {"pads", std::vector<int64_t>{l_.kernel - 1, 0}}});
    return Silu(
        g_.Node("Transpose", {Reshape(y, {channels, -1})}, {{"perm", std::vector<int64_t>{1, 0}}}));
  }

  // Each head divided by its length.
  std::string Normalise(const std::string& x) {
    const std::string heads = Reshape(x, {-1, l_.key_heads, l_.key_dim});
    const std::string sum =
        g_.Node("ReduceSum", {g_.Node("Mul", {heads, heads}), g_.Integers({-1})});
    return g_.Node("Div",
                   {heads, g_.Node("Sqrt", {g_.Node("Add", {sum, g_.Scalar(kNormEpsilon)})})});
  }

  // The logarithm of what is left of the state at each step: -exp(A_log) softplus(a + dt_bias).
  std::string Decay(const std::string& a) {
    const std::string bias = e_.Constant(kPrefix + "dt_bias", {l_.value_heads});
    const std::string soft = g_.Node("Softplus", {g_.Node("Add", {a, bias})});
    const std::string rate = g_.Node("Exp", {e_.Constant(kPrefix + "A_log", {l_.value_heads})});
    return g_.Node("Neg", {g_.Node("Mul", {rate, soft})});
  }

  const DecoderSpec& s_;
  const LinearAttentionSpec& l_;
  BlockEmitter& e_;
  GraphBuilder& g_;
};

}  // namespace

std::string LinearAttention(const DecoderSpec& spec, BlockEmitter& emitter,
                            const std::string& normed) {
  return LinearAttentionWriter(spec, emitter).Write(normed);
}

}  // namespace hif8
