#include "lib/model/safetensors/decoder.h"

#include <algorithm>
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

  PartGraph WriteExpert() {
    const std::string rows = g_.Input("rows", DType::kF32, {-1, s_.hidden});
    const auto in = e_.Activation(rows, "gate_proj.input");
    g_.Output(Mlp(in, "", s_.experts.intermediate), "rows_out", DType::kF32, {-1, s_.hidden});
    return e_.Finish();
  }

  PartGraph Write(bool experts) {
    const std::string hidden = g_.Input("hidden", DType::kF32, {-1, s_.hidden});
    const auto pairs = static_cast<int64_t>(s_.rope.frequencies.size());
    cosines_ = g_.Input("cosines", DType::kF32, {-1, pairs});
    sines_ = g_.Input("sines", DType::kF32, {-1, pairs});
    mask_ = g_.Input("mask", DType::kF32, {-1, -1});
    const std::string normed = e_.RmsNorm(hidden, "input_layernorm.weight", s_.hidden, s_.epsilon);
    const std::string attention =
        s_.latent.kv_rank > 0 ? LatentAttention(normed) : Attention(normed);
    const std::string attended = g_.Node("Add", {hidden, attention});
    const std::string ready =
        e_.RmsNorm(attended, "post_attention_layernorm.weight", s_.hidden, s_.epsilon);
    if (experts) {
      WriteSparse(attended, ready);
    } else {
      const auto in = e_.Activation(ready, "mlp.gate_proj.input");
      const std::string mlp = Mlp(in, "mlp.", s_.intermediate);
      g_.Output(g_.Node("Add", {attended, mlp}), "hidden_out", DType::kF32, {-1, s_.hidden});
    }
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

  // What the shared expert adds is in "hidden_out" already.
  void WriteSparse(const std::string& attended, const std::string& ready) {
    const auto in = e_.Activation(ready, "mlp.gate.input");
    const std::string logits = e_.Linear(in, "mlp.gate", s_.experts.count, s_.hidden, false);
    std::string sum = attended;
    if (s_.experts.shared > 0) {
      const auto shared = e_.Activation(ready, "mlp.shared_experts.gate_proj.input");
      sum = g_.Node("Add", {sum, Mlp(shared, "mlp.shared_experts.", s_.experts.shared)});
    }
    g_.Output(sum, "hidden_out", DType::kF32, {-1, s_.hidden});
    g_.Output(ready, "normed", DType::kF32, {-1, s_.hidden});
    g_.Output(logits, "router", DType::kF32, {-1, s_.experts.count});
  }

  std::string Attention(const std::string& normed) {
    const int64_t width = s_.heads * s_.head_dim;
    const int64_t kv_width = s_.kv_heads * s_.head_dim;
    const auto in = e_.Activation(normed, "self_attn.q_proj.input");
    const std::string q = e_.Linear(in, "self_attn.q_proj", width, s_.hidden, s_.qkv_bias);
    const std::string k = e_.Linear(in, "self_attn.k_proj", kv_width, s_.hidden, s_.qkv_bias);
    const std::string v = e_.Linear(in, "self_attn.v_proj", kv_width, s_.hidden, s_.qkv_bias);
    const char* q_norm = s_.head_norms ? "self_attn.q_norm.weight" : "";
    const char* k_norm = s_.head_norms ? "self_attn.k_norm.weight" : "";
    const std::string queries = Rotate(Heads(q, s_.heads, q_norm));
    const std::string keys = e_.Cache(Rotate(Heads(k, s_.kv_heads, k_norm)), "self_attn.k");
    const std::string values = e_.Cache(Heads(v, s_.kv_heads, ""), "self_attn.v");
    return Project(Mix(queries, keys, values, s_.kv_heads, s_.head_dim, s_.head_dim), width);
  }

  // [heads, T, n] through o_proj, width = heads * n.
  std::string Project(const std::string& mixed, int64_t width) {
    const std::string joined = Reshape(Transpose(mixed, {1, 0, 2}), {-1, width});
    const auto out = e_.Activation(joined, "self_attn.o_proj.input");
    return e_.Linear(out, "self_attn.o_proj", s_.hidden, width, s_.output_bias);
  }

  // [T, n] into pieces along the last dimension.
  std::vector<std::string> Split(const std::string& x, const std::vector<int64_t>& sizes) {
    return g_.Nodes("Split", {x, g_.Integers(sizes)}, sizes.size(), {{"axis", int64_t{-1}}});
  }

  // Neighbours become first and second half, which is how Rotate() wants pairs. The same for q and
  // k, so that their products do not change.
  std::string Pair(const std::string& x, int64_t heads) {
    if (!s_.latent.interleaved) return x;
    const int64_t half = s_.latent.rope / 2;
    const std::string pairs = Reshape(x, {heads, -1, half, 2});
    return Reshape(Transpose(pairs, {0, 1, 3, 2}), {heads, -1, s_.latent.rope});
  }

  std::string LatentAttention(const std::string& normed) {
    const LatentSpec& l = s_.latent;
    const int64_t head = l.nope + l.rope;
    const bool compressed = l.q_rank > 0;
    const auto in =
        e_.Activation(normed, compressed ? "self_attn.q_a_proj.input" : "self_attn.q_proj.input");
    const std::string q = LatentQueries(in, compressed);
    const std::string by_head = Transpose(Reshape(q, {-1, s_.heads, head}), {1, 0, 2});
    const auto q_parts = Split(by_head, {l.nope, l.rope});
    const std::string queries = g_.Node("Concat", {q_parts[0], Rotate(Pair(q_parts[1], s_.heads))},
                                        {{"axis", int64_t{-1}}});

    const auto kv_a = Split(
        e_.Linear(in, "self_attn.kv_a_proj_with_mqa", l.kv_rank + l.rope, s_.hidden, s_.qkv_bias),
        {l.kv_rank, l.rope});
    const std::string latent =
        e_.Cache(e_.RmsNorm(kv_a[0], "self_attn.kv_a_layernorm.weight", l.kv_rank, s_.epsilon),
                 "self_attn.kv_latent");
    const std::string rotated =
        e_.Cache(Rotate(Pair(Reshape(kv_a[1], {1, -1, l.rope}), 1)), "self_attn.k_rope");
    const std::string kv =
        e_.Linear(e_.Activation(latent, "self_attn.kv_b_proj.input"), "self_attn.kv_b_proj",
                  s_.heads * (l.nope + l.value), l.kv_rank, false);
    const auto kv_parts = Split(Transpose(Reshape(kv, {-1, s_.heads, l.nope + l.value}), {1, 0, 2}),
                                {l.nope, l.value});
    // The rotated part is the same for all heads.
    const std::string every = g_.Node("Expand", {rotated, g_.Integers({s_.heads, 1, 1})});
    const std::string keys = g_.Node("Concat", {kv_parts[0], every}, {{"axis", int64_t{-1}}});
    return Project(Mix(queries, keys, kv_parts[1], s_.heads, head, l.value), s_.heads * l.value);
  }

  std::string LatentQueries(const BlockEmitter::Operand& in, bool compressed) {
    const LatentSpec& l = s_.latent;
    const int64_t width = s_.heads * (l.nope + l.rope);
    if (!compressed) return e_.Linear(in, "self_attn.q_proj", width, s_.hidden, false);
    const std::string a = e_.Linear(in, "self_attn.q_a_proj", l.q_rank, s_.hidden, s_.qkv_bias);
    const std::string normed =
        e_.RmsNorm(a, "self_attn.q_a_layernorm.weight", l.q_rank, s_.epsilon);
    return e_.Linear(e_.Activation(normed, "self_attn.q_b_proj.input"), "self_attn.q_b_proj", width,
                     l.q_rank, false);
  }

  // softmax(q k^T * scale + mask) v, [heads, T, value_dim]. The heads that share a head of k and v
  // lie one below the other, so that one product serves them.
  std::string Mix(const std::string& queries, const std::string& keys, const std::string& values,
                  int64_t kv_heads, int64_t key_dim, int64_t value_dim) {
    const std::vector<int64_t> stacked = {kv_heads, -1, key_dim};
    const auto q = Map(e_.Activation(queries, "self_attn.qk.query"),
                       [&](const std::string& x) { return Reshape(x, stacked); });
    const auto k = Map(e_.Activation(keys, "self_attn.qk.key"), [&](const std::string& x) {
      return Transpose(x, {0, 2, 1});
    });
    const std::string scores = e_.Product(q, k, -1, "self_attn.qk");
    const std::string scaled =
        g_.Node("Mul", {scores, g_.Scalar(static_cast<float>(s_.softmax_scale))});
    // [kv_heads, group * T, T] -> [heads, T, T], where the mask fits.
    const std::string length = g_.Node("Shape", {mask_});
    const std::string by_head =
        g_.Node("Concat", {g_.Integers({s_.heads}), length}, {{"axis", int64_t{0}}});
    const std::string masked = g_.Node("Add", {g_.Node("Reshape", {scaled, by_head}), mask_});
    const std::string soft = g_.Node("Softmax", {masked}, {{"axis", int64_t{-1}}});
    // Back: group * T rows per head of v.
    const std::string rows =
        g_.Node("Concat",
                {g_.Integers({kv_heads, -1}),
                 g_.Node("Slice", {length, g_.Integers({1}), g_.Integers({2})})},
                {{"axis", int64_t{0}}});
    const auto p = e_.Activation(g_.Node("Reshape", {soft, rows}), "self_attn.pv.probability");
    const auto v = e_.Activation(values, "self_attn.pv.value");
    const std::string mixed = e_.Product(p, v, -2, "self_attn.pv");
    return Reshape(mixed, {s_.heads, -1, value_dim});
  }

  // down(silu(gate(x)) * up(x)) with the modules below `prefix`.
  std::string Mlp(const BlockEmitter::Operand& in, const std::string& prefix,
                  int64_t intermediate) {
    const std::string gate =
        e_.Linear(in, prefix + "gate_proj", intermediate, s_.hidden, s_.mlp_bias);
    const std::string up = e_.Linear(in, prefix + "up_proj", intermediate, s_.hidden, s_.mlp_bias);
    const std::string silu = g_.Node("Mul", {gate, g_.Node("Sigmoid", {gate})});
    const auto product = e_.Activation(g_.Node("Mul", {silu, up}), prefix + "down_proj.input");
    return e_.Linear(product, prefix + "down_proj", s_.hidden, intermediate, s_.mlp_bias);
  }

  const DecoderSpec& s_;
  BlockEmitter e_;
  GraphBuilder& g_;
  std::string cosines_, sines_, mask_;
};

}  // namespace

PartGraph DecoderBlock(const DecoderSpec& spec, bool experts, PartOptions options) {
  return BlockWriter(spec, std::move(options)).Write(experts);
}

PartGraph DecoderExpert(const DecoderSpec& spec, PartOptions options) {
  return BlockWriter(spec, std::move(options)).WriteExpert();
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
