#include "lib/model/safetensors/decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace hif8 {
namespace {

constexpr char kHead[] = "lm_head";
constexpr char kHeadInput[] = "lm_head.input";

class BlockWriter {
 public:
  BlockWriter(const DecoderSpec& spec, PartOptions options)
      : s_(spec), e_(std::move(options)), g_(e_.graph()) {}

  PartGraph Write() {
    const std::string hidden = g_.Input("hidden", DType::kF32, {-1, s_.hidden});
    cosines_ = g_.Input("cosines", DType::kF32, {-1, s_.head_dim / 2});
    sines_ = g_.Input("sines", DType::kF32, {-1, s_.head_dim / 2});
    mask_ = g_.Input("mask", DType::kF32, {-1, -1});
    const std::string attended = g_.Node("Add", {hidden, Attention(hidden)});
    const std::string result = g_.Node("Add", {attended, Mlp(attended)});
    g_.Output(result, "hidden_out", DType::kF32, {-1, s_.hidden});
    return e_.Finish();
  }

 private:
  std::string Reshape(const std::string& x, const std::vector<int64_t>& shape) {
    return g_.Node("Reshape", {x, g_.Integers(shape)});
  }
  std::string Transpose(const std::string& x, const std::vector<int64_t>& order) {
    return g_.Node("Transpose", {x}, {{"perm", order}});
  }

  // The same step in both networks.
  template <typename Step>
  static BlockEmitter::Operand Map(BlockEmitter::Operand x, const Step& step) {
    const bool same = x.quantized == x.original;
    x.original = step(x.original);
    x.quantized = same ? x.original : step(x.quantized);
    return x;
  }

  // [heads, T, head_dim]: the second half of each head's elements is turned against the first.
  std::string Rotate(const std::string& x) {
    const auto halves = g_.Nodes("Split", {x}, 2, {{"axis", int64_t{-1}}});
    const std::string first = g_.Node(
        "Sub", {g_.Node("Mul", {halves[0], cosines_}), g_.Node("Mul", {halves[1], sines_})});
    const std::string second = g_.Node(
        "Add", {g_.Node("Mul", {halves[1], cosines_}), g_.Node("Mul", {halves[0], sines_})});
    return g_.Node("Concat", {first, second}, {{"axis", int64_t{-1}}});
  }

  // [T, heads * head_dim] -> [heads, T, head_dim]
  std::string Heads(const std::string& x, int64_t heads, const std::string& norm) {
    std::string y = Reshape(x, {-1, heads, s_.head_dim});
    if (!norm.empty()) y = e_.RmsNorm(y, norm, s_.head_dim, s_.epsilon);
    return Transpose(y, {1, 0, 2});
  }

  std::string Attention(const std::string& hidden) {
    const int64_t width = s_.heads * s_.head_dim;
    const int64_t kv_width = s_.kv_heads * s_.head_dim;
    const auto in =
        e_.Activation(e_.RmsNorm(hidden, "input_layernorm.weight", s_.hidden, s_.epsilon),
                      "self_attn.q_proj.input");
    const std::string q = e_.Linear(in, "self_attn.q_proj", width, s_.hidden, s_.qkv_bias);
    const std::string k = e_.Linear(in, "self_attn.k_proj", kv_width, s_.hidden, s_.qkv_bias);
    const std::string v = e_.Linear(in, "self_attn.v_proj", kv_width, s_.hidden, s_.qkv_bias);
    const char* q_norm = s_.head_norms ? "self_attn.q_norm.weight" : "";
    const char* k_norm = s_.head_norms ? "self_attn.k_norm.weight" : "";
    const std::string queries = Rotate(Heads(q, s_.heads, q_norm));
    const std::string keys = e_.Cache(Rotate(Heads(k, s_.kv_heads, k_norm)), "self_attn.k");
    const std::string values = e_.Cache(Heads(v, s_.kv_heads, ""), "self_attn.v");
    const std::string mixed = Mix(queries, keys, values);
    const std::string joined = Reshape(Transpose(mixed, {1, 0, 2}), {-1, width});
    const auto out = e_.Activation(joined, "self_attn.o_proj.input");
    return e_.Linear(out, "self_attn.o_proj", s_.hidden, width, s_.output_bias);
  }

  // softmax(q k^T / sqrt(head_dim) + mask) v, [heads, T, head_dim]. The heads that share a head of
  // k and v lie one below the other, so that one product serves them.
  std::string Mix(const std::string& queries, const std::string& keys, const std::string& values) {
    const std::vector<int64_t> stacked = {s_.kv_heads, -1, s_.head_dim};
    const auto q = Map(e_.Activation(queries, "self_attn.qk.query"),
                       [&](const std::string& x) { return Reshape(x, stacked); });
    const auto k = Map(e_.Activation(keys, "self_attn.qk.key"), [&](const std::string& x) {
      return Transpose(x, {0, 2, 1});
    });
    const std::string scores = e_.Product(q, k, "self_attn.qk");
    const std::string scaled =
        g_.Node("Mul", {scores, g_.Scalar(1 / std::sqrt(static_cast<float>(s_.head_dim)))});
    // [kv_heads, group * T, T] -> [heads, T, T], where the mask fits.
    const std::string length = g_.Node("Shape", {mask_});
    const std::string by_head =
        g_.Node("Concat", {g_.Integers({s_.heads}), length}, {{"axis", int64_t{0}}});
    const std::string masked = g_.Node("Add", {g_.Node("Reshape", {scaled, by_head}), mask_});
    const std::string soft = g_.Node("Softmax", {masked}, {{"axis", int64_t{-1}}});
    // Back: group * T rows per head of v.
    const std::string rows =
        g_.Node("Concat",
                {g_.Integers({s_.kv_heads, -1}),
                 g_.Node("Slice", {length, g_.Integers({1}), g_.Integers({2})})},
                {{"axis", int64_t{0}}});
    const auto p = e_.Activation(g_.Node("Reshape", {soft, rows}), "self_attn.pv.probability");
    const auto v = e_.Activation(values, "self_attn.pv.value");
    const std::string mixed = e_.Product(p, v, "self_attn.pv");
    return Reshape(mixed, {s_.heads, -1, s_.head_dim});
  }

  std::string Mlp(const std::string& hidden) {
    const auto in =
        e_.Activation(e_.RmsNorm(hidden, "post_attention_layernorm.weight", s_.hidden, s_.epsilon),
                      "mlp.gate_proj.input");
    const std::string gate =
        e_.Linear(in, "mlp.gate_proj", s_.intermediate, s_.hidden, s_.mlp_bias);
    const std::string up = e_.Linear(in, "mlp.up_proj", s_.intermediate, s_.hidden, s_.mlp_bias);
    const std::string silu = g_.Node("Mul", {gate, g_.Node("Sigmoid", {gate})});
    const auto product = e_.Activation(g_.Node("Mul", {silu, up}), "mlp.down_proj.input");
    return e_.Linear(product, "mlp.down_proj", s_.hidden, s_.intermediate, s_.mlp_bias);
  }

  const DecoderSpec& s_;
  BlockEmitter e_;
  GraphBuilder& g_;
  std::string cosines_, sines_, mask_;
};

}  // namespace

PartGraph DecoderBlock(const DecoderSpec& spec, PartOptions options) {
  return BlockWriter(spec, std::move(options)).Write();
}

PartGraph DecoderNorm(const DecoderSpec& spec, PartOptions options) {
  BlockEmitter e(std::move(options));
  const std::string hidden = e.graph().Input("hidden", DType::kF32, {-1, spec.hidden});
  const std::string normed = e.RmsNorm(hidden, "norm.weight", spec.hidden, spec.epsilon);
  const auto input = e.Activation(normed, kHeadInput);
  e.graph().Output(input.original, "normed", DType::kF32, {-1, spec.hidden});
  return e.Finish();
}

PartGraph DecoderHead(const DecoderSpec& spec, PartOptions options) {
  BlockEmitter e(std::move(options));
  const std::string normed = e.graph().Input("normed", DType::kF32, {-1, spec.hidden});
  // The final norm's graph observes it.
  const auto input = e.Activation(normed, kHeadInput, false);
  const std::string logits = e.Linear(input, kHead, -1, spec.hidden, false);
  e.graph().Output(logits, "logits", DType::kF32, {-1, -1});
  return e.Finish();
}

std::vector<float> AttentionMask(int64_t length, int64_t window) {
  std::vector<float> mask(static_cast<size_t>(length * length),
                          -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < length; ++i) {
    const int64_t first = window > 0 ? std::max<int64_t>(0, i - window + 1) : 0;
    for (int64_t j = first; j <= i; ++j) mask[static_cast<size_t>(i * length + j)] = 0;
  }
  return mask;
}

}  // namespace hif8
