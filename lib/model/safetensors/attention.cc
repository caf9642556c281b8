#include "lib/model/safetensors/attention.h"

#include <cmath>
#include <limits>

namespace hif8 {
namespace {

// The same step in both networks.
template <typename Step>
BlockEmitter::Operand Map(BlockEmitter::Operand x, const Step& step) {
  const bool same = x.quantized == x.original;
  x.original = step(x.original);
  x.quantized = same ? x.original : step(x.quantized);
  return x;
}

constexpr float kIndexerEpsilon = 1e-6F;

}  // namespace

AttentionWriter::AttentionWriter(const DecoderSpec& spec, BlockKind kind, BlockEmitter& emitter)
    : s_(spec), a_(spec.attention), kind_(kind), e_(emitter), g_(emitter.graph()) {
  if (kind.rotated) {
    const auto pairs = static_cast<int64_t>(s_.rope.frequencies.size());
    cosines_ = g_.Input("cosines", DType::kF32, {-1, pairs});
    sines_ = g_.Input("sines", DType::kF32, {-1, pairs});
  }
  mask_ = g_.Input("mask", DType::kF32, {-1, -1});
  if (kind.tempered) temperatures_ = g_.Input("temperatures", DType::kF32, {-1, 1});
}

std::string AttentionWriter::Write(const std::string& normed) {
  return s_.latent.kv_rank > 0 ? Latent(normed) : Heads(normed);
}

std::string AttentionWriter::Reshape(const std::string& x, const std::vector<int64_t>& shape) {
  return g_.Node("Reshape", {x, g_.Integers(shape)});
}

std::string AttentionWriter::Transpose(const std::string& x, const std::vector<int64_t>& order) {
  return g_.Node("Transpose", {x}, {{"perm", order}});
}

std::string AttentionWriter::Concat(const std::vector<std::string>& parts) {
  return g_.Node("Concat", parts, {{"axis", int64_t{-1}}});
}

std::vector<std::string> AttentionWriter::Split(const std::string& x,
                                                const std::vector<int64_t>& sizes) {
  return g_.Nodes("Split", {x, g_.Integers(sizes)}, sizes.size(), {{"axis", int64_t{-1}}});
}

std::string AttentionWriter::Norm(const std::string& x, const std::string& name, int64_t size) {
  return a_.norm.weight ? e_.Norm(s_.norm.type, x, name, size, s_.norm.epsilon)
                        : e_.DivideByRms(x, s_.norm.epsilon);
}

// Neighbours become first and second half, which is how Rotate() wants pairs. The same for q and
// k, so that their products do not change.
std::string AttentionWriter::Pair(const std::string& x, int64_t heads, int64_t width) {
  const std::string pairs = Reshape(x, {heads, -1, width / 2, 2});
  return Reshape(Transpose(pairs, {0, 1, 3, 2}), {heads, -1, width});
}

std::string AttentionWriter::Rotate(const std::string& x, int64_t heads, int64_t width,
                                    bool interleaved) {
  if (!kind_.rotated) return x;
  const auto turned = 2 * static_cast<int64_t>(s_.rope.frequencies.size());
  if (turned < width) {
    const auto parts = Split(x, {turned, width - turned});
    return Concat({Rotate(parts[0], heads, turned, interleaved), parts[1]});
  }
  const auto halves =
      g_.Nodes("Split", {interleaved ? Pair(x, heads, width) : x}, 2, {{"axis", int64_t{-1}}});
  const std::string first =
      g_.Node("Sub", {g_.Node("Mul", {halves[0], cosines_}), g_.Node("Mul", {halves[1], sines_})});
  const std::string second =
      g_.Node("Add", {g_.Node("Mul", {halves[1], cosines_}), g_.Node("Mul", {halves[0], sines_})});
  return Concat({first, second});
}

std::string AttentionWriter::ByHead(const std::string& x, int64_t heads, const std::string& norm) {
  const QkNormSpec& n = a_.norm;
  const bool by_head = kind_.qk_norm && n.over == QkNorm::kHead && !norm.empty();
  std::string y = x;
  if (kind_.qk_norm && n.over == QkNorm::kProjection && !norm.empty()) {
    y = Norm(y, norm, heads * s_.head_dim);
  }
  y = Reshape(y, {-1, heads, s_.head_dim});
  if (by_head && !n.after_rope) y = Norm(y, norm, s_.head_dim);
  y = Transpose(y, {1, 0, 2});
  if (!norm.empty()) y = Rotate(y, heads, s_.head_dim, s_.rope.interleaved);
  if (by_head && n.after_rope) y = Norm(y, norm, s_.head_dim);
  return y;
}

std::string AttentionWriter::Heads(const std::string& normed) {
  const int64_t width = s_.heads * s_.head_dim;
  const int64_t kv_width = s_.kv_heads * s_.head_dim;
  const int64_t q_width = a_.output_gate ? 2 * width : width;
  std::string q, k, v, gate;
  const std::string& first = a_.qkv.empty() ? a_.q : a_.qkv;
  const Operand in = e_.Activation(normed, first + ".input");
  if (a_.qkv.empty()) {
    q = e_.Linear(in, a_.q, q_width, s_.hidden, a_.qkv_bias);
    k = e_.Linear(in, a_.k, kv_width, s_.hidden, a_.qkv_bias);
    v = e_.Linear(in, a_.v, kv_width, s_.hidden, a_.qkv_bias);
  } else {
    const auto parts = Split(e_.Linear(in, a_.qkv, q_width + 2 * kv_width, s_.hidden, a_.qkv_bias),
                             {q_width, kv_width, kv_width});
    q = parts[0];
    k = parts[1];
    v = parts[2];
  }
  if (a_.output_gate) {
    const auto parts =
        Split(Reshape(q, {-1, s_.heads, 2 * s_.head_dim}), {s_.head_dim, s_.head_dim});
    q = Reshape(parts[0], {-1, width});
    gate = Reshape(parts[1], {-1, width});
  }
  std::string queries = ByHead(q, s_.heads, a_.norm.query);
  if (kind_.tempered) queries = g_.Node("Mul", {queries, temperatures_});
  const std::string keys = Cache(ByHead(k, s_.kv_heads, a_.norm.key), "self_attn.k");
  const std::string values = Cache(ByHead(v, s_.kv_heads, ""), "self_attn.v");
  return Project(Mix(queries, keys, values, s_.kv_heads, s_.head_dim, s_.head_dim), width, gate);
}

std::string AttentionWriter::Cache(const std::string& x, const std::string& name) {
  if (!s_.head_caches) return e_.Cache(x, name);
  const std::vector<int64_t> ones(static_cast<size_t>(s_.kv_heads), 1);
  std::vector<std::string> heads =
      g_.Nodes("Split", {x, g_.Integers(ones)}, ones.size(), {{"axis", int64_t{0}}});
  for (size_t i = 0; i < heads.size(); ++i) {
    heads[i] = e_.Cache(heads[i], name + "." + std::to_string(i));
  }
  return g_.Node("Concat", heads, {{"axis", int64_t{0}}});
}

std::string AttentionWriter::Project(const std::string& mixed, int64_t width,
                                     const std::string& gate) {
  std::string joined = Reshape(Transpose(mixed, {1, 0, 2}), {-1, width});
  if (!gate.empty()) joined = g_.Node("Mul", {joined, g_.Node("Sigmoid", {gate})});
  const auto out = e_.Activation(joined, a_.o + ".input");
  return e_.Linear(out, a_.o, s_.hidden, width, a_.output_bias);
}

std::string AttentionWriter::Latent(const std::string& normed) {
  const LatentSpec& l = s_.latent;
  const int64_t head = l.nope + l.rope;
  const auto in =
      e_.Activation(normed, l.q_rank > 0 ? "self_attn.q_a_proj.input" : "self_attn.q_proj.input");
  Operand compressed;
  const std::string q = LatentQueries(in, &compressed);
  const std::string by_head = Transpose(Reshape(q, {-1, s_.heads, head}), {1, 0, 2});
  const auto q_parts = Split(by_head, {l.nope, l.rope});
  const bool interleaved = s_.rope.interleaved;
  const std::string queries =
      Concat({q_parts[0], Rotate(q_parts[1], s_.heads, l.rope, interleaved)});

  const auto kv_a = Split(
      e_.Linear(in, "self_attn.kv_a_proj_with_mqa", l.kv_rank + l.rope, s_.hidden, a_.qkv_bias),
      {l.kv_rank, l.rope});
  const std::string latent =
      e_.Cache(e_.Norm(s_.norm.type, kv_a[0], "self_attn.kv_a_layernorm", l.kv_rank, l.epsilon),
               "self_attn.kv_latent");
  const std::string rotated = e_.Cache(
      Rotate(Reshape(kv_a[1], {1, -1, l.rope}), 1, l.rope, interleaved), "self_attn.k_rope");
  const std::string kv =
      e_.Linear(e_.Activation(latent, "self_attn.kv_b_proj.input"), "self_attn.kv_b_proj",
                s_.heads * (l.nope + l.value), l.kv_rank, false);
  const auto kv_parts =
      Split(Transpose(Reshape(kv, {-1, s_.heads, l.nope + l.value}), {1, 0, 2}), {l.nope, l.value});
  // The rotated part is the same for all heads.
  const std::string every = g_.Node("Expand", {rotated, g_.Integers({s_.heads, 1, 1})});
  const std::string keys = Concat({kv_parts[0], every});
  if (s_.indexer.keys > 0) mask_ = g_.Node("Add", {mask_, Chosen(in, compressed)});
  return Project(Mix(queries, keys, kv_parts[1], s_.heads, head, l.value), s_.heads * l.value, "");
}

std::string AttentionWriter::LatentQueries(const Operand& in, Operand* compressed) {
  const LatentSpec& l = s_.latent;
  const int64_t width = s_.heads * (l.nope + l.rope);
  if (l.q_rank == 0) return e_.Linear(in, "self_attn.q_proj", width, s_.hidden, false);
  const std::string a = e_.Linear(in, "self_attn.q_a_proj", l.q_rank, s_.hidden, a_.qkv_bias);
  const std::string normed =
      e_.Norm(s_.norm.type, a, "self_attn.q_a_layernorm", l.q_rank, l.epsilon);
  *compressed = e_.Activation(normed, "self_attn.q_b_proj.input");
  return e_.Linear(*compressed, "self_attn.q_b_proj", width, l.q_rank, false);
}

std::string AttentionWriter::Chosen(const Operand& in, const Operand& compressed) {
  const IndexerSpec& x = s_.indexer;
  const std::string p = "self_attn.indexer.";
  const std::string q =
      e_.Linear(compressed, p + "wq_b", x.heads * x.head_dim, s_.latent.q_rank, false);
  const std::string queries = Rotate(Transpose(Reshape(q, {-1, x.heads, x.head_dim}), {1, 0, 2}),
                                     x.heads, x.head_dim, false);
  const std::string k = e_.LayerNorm(e_.Linear(in, p + "wk", x.head_dim, s_.hidden, false),
                                     p + "k_norm", x.head_dim, kIndexerEpsilon, true);
  const std::string keys = Rotate(Reshape(k, {1, -1, x.head_dim}), 1, x.head_dim, false);
  const std::string products =
      g_.Node("Relu", {g_.Node("MatMul", {queries, Transpose(keys, {0, 2, 1})})});
  // [T, heads] -> [heads, T, 1]
  const std::string weights =
      Reshape(Transpose(e_.Linear(in, p + "weights_proj", x.heads, s_.hidden, false), {1, 0}),
              {x.heads, -1, 1});
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(x.heads * x.head_dim)));
  const std::string weighted =
      g_.Node("Mul", {g_.Node("Mul", {products, weights}), g_.Scalar(factor)});
  const std::string sum =
      g_.Node("ReduceSum", {weighted, g_.Integers({0})}, {{"keepdims", int64_t{0}}});
  const std::string scores = g_.Node("Add", {sum, mask_});
  const std::string shape = g_.Node("Shape", {mask_});
  const std::string length = g_.Node("Slice", {shape, g_.Integers({1}), g_.Integers({2})});
  const std::string count = g_.Node("Min", {length, g_.Integers({x.keys})});
  const auto best = g_.Nodes("TopK", {scores, count}, 2, {{"axis", int64_t{-1}}});
  const std::string none =
      g_.Node("Expand", {g_.Scalar(-std::numeric_limits<float>::infinity()), shape});
  const std::string zeros = g_.Node("Expand", {g_.Scalar(0), g_.Node("Shape", {best[1]})});
  return g_.Node("ScatterElements", {none, best[1], zeros}, {{"axis", int64_t{-1}}});
}

std::string AttentionWriter::Scaled(const std::string& x, double factor) {
  const std::string scaled = g_.Node("Mul", {x, g_.Scalar(static_cast<float>(factor))});
  return a_.soft_cap == 0 ? scaled : e_.SoftCap(scaled, a_.soft_cap);
}

// The heads that share a head of k and v lie one below the other, so that one product serves them.
std::string AttentionWriter::Mix(const std::string& queries, const std::string& keys,
                                 const std::string& values, int64_t kv_heads, int64_t key_dim,
                                 int64_t value_dim) {
  const std::vector<int64_t> stacked = {kv_heads, -1, key_dim};
  const auto q = Map(e_.Activation(queries, "self_attn.qk.query"),
                     [&](const std::string& x) { return Reshape(x, stacked); });
  const auto k = Map(e_.Activation(keys, "self_attn.qk.key"), [&](const std::string& x) {
    return Transpose(x, {0, 2, 1});
  });
  const std::string scores = e_.Product(q, k, -1, "self_attn.qk");
  const std::string scaled = Scaled(scores, s_.softmax_scale);
  // [kv_heads, group * T, T] -> [heads, T, T], where the mask fits.
  const std::string length = g_.Node("Shape", {mask_});
  const std::string by_head =
      g_.Node("Concat", {g_.Integers({s_.heads}), length}, {{"axis", int64_t{0}}});
  const std::string masked = g_.Node("Add", {g_.Node("Reshape", {scaled, by_head}), mask_});
  const std::string soft = Softmax(masked, length);
  // Back: group * T rows per head of v.
  const std::string rows = g_.Node(
      "Concat",
      {g_.Integers({kv_heads, -1}), g_.Node("Slice", {length, g_.Integers({1}), g_.Integers({2})})},
      {{"axis", int64_t{0}}});
  const auto p = e_.Activation(g_.Node("Reshape", {soft, rows}), "self_attn.pv.probability");
  const auto v = e_.Activation(values, "self_attn.pv.value");
  const std::string mixed = e_.Product(p, v, -2, "self_attn.pv");
  return Reshape(mixed, {s_.heads, -1, value_dim});
}

// With sinks there is one more column, whose share is dropped.
std::string AttentionWriter::Softmax(const std::string& masked, const std::string& length) {
  if (a_.sinks.empty()) return g_.Node("Softmax", {masked}, {{"axis", int64_t{-1}}});
  const std::string rows = g_.Node("Slice", {length, g_.Integers({0}), g_.Integers({1})});
  const std::string shape =
      g_.Node("Concat", {g_.Integers({s_.heads}), rows, g_.Integers({1})}, {{"axis", int64_t{0}}});
  const std::string sinks =
      g_.Node("Expand", {Reshape(e_.Constant(a_.sinks, {s_.heads}), {s_.heads, 1, 1}), shape});
  const std::string soft = g_.Node("Softmax", {Concat({masked, sinks})}, {{"axis", int64_t{-1}}});
  return g_.Node("Slice", {soft, g_.Integers({0}), g_.Integers({-1}), g_.Integers({-1})});
}

}  // namespace hif8
