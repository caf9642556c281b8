// What stands before the first block and behind the last one.
#include <cmath>
#include <utility>

#include "lib/model/safetensors/decoder.h"
#include "lib/model/safetensors/mlp.h"

namespace hif8 {
namespace {

class EndsWriter {
 public:
  EndsWriter(const DecoderSpec& spec, PartOptions options)
      : s_(spec), e_(std::move(options)), g_(e_.graph()) {}

  PartGraph Front() {
    std::string x = s_.input == InputType::kImage
                        ? Patches()
                        : g_.Input("embedded", DType::kF32, {-1, s_.hidden});
    const EmbeddingSpec& m = s_.embedding;
    if (!m.class_token.empty()) {
      const std::string token = e_.Constant(m.class_token, {s_.hidden});
      x = g_.Node("Concat", {Reshape(token, {1, s_.hidden}), x}, {{"axis", int64_t{0}}});
    }
    if (!m.types.empty()) x = g_.Node("Add", {x, Rows(m.types, g_.Integers({1}))});
    if (!m.positions.empty()) {
      const std::string shape = g_.Node("Shape", {x});
      const std::string length = g_.Node("Slice", {shape, g_.Integers({0}), g_.Integers({1})});
      x = g_.Node("Add", {x, Rows(m.positions, length)});
    }
    if (!m.norm.empty()) x = e_.Norm(s_.norm, x, m.norm, s_.hidden);
    g_.Output(x, "hidden_out", DType::kF32, {-1, s_.hidden});
    return e_.Finish();
  }

  PartGraph Tail() {
    std::string x = g_.Input("hidden", DType::kF32, {-1, s_.hidden});
    if (s_.pool.type == Pooling::kFirst) x = First(x);
    if (!s_.norm.final.empty()) x = e_.Norm(s_.norm, x, s_.norm.final, s_.hidden);
    if (s_.pool.type == Pooling::kAttention) x = Pool(x);
    const HeadSpec& h = s_.head;
    MlpWriter mlp(s_, e_);
    if (!h.transform.empty()) {
      const auto in = e_.Activation(x, h.transform + ".input");
      x = mlp.Activated(e_.Linear(in, h.transform, s_.hidden, s_.hidden, h.transform_bias));
      if (!h.norm.empty()) x = e_.Norm(s_.norm, x, h.norm, s_.hidden);
    }
    if (!h.name.empty()) x = e_.Activation(x, h.name + ".input").original;
    g_.Output(x, "normed", DType::kF32, {-1, s_.hidden});
    return e_.Finish();
  }

  PartGraph Head() {
    const std::string normed = g_.Input("normed", DType::kF32, {-1, s_.hidden});
    const HeadSpec& h = s_.head;
    // The graph of what stands before it observes its input.
    const auto input = e_.Activation(normed, h.name + ".input", false);
    std::string logits = e_.Linear(input, h.name, -1, s_.hidden, false);
    if (!h.bias.empty()) logits = g_.Node("Add", {logits, e_.Constant(h.bias, {-1})});
    logits = e_.Times(logits, h.multiplier);
    if (h.soft_cap != 0) logits = e_.SoftCap(logits, h.soft_cap);
    g_.Output(logits, "logits", DType::kF32, {-1, -1});
    return e_.Finish();
  }

 private:
  std::string Reshape(const std::string& x, const std::vector<int64_t>& shape) {
    return g_.Node("Reshape", {x, g_.Integers(shape)});
  }
  std::string Transpose(const std::string& x, const std::vector<int64_t>& order) {
    return g_.Node("Transpose", {x}, {{"perm", order}});
  }
  std::string First(const std::string& x) {
    return g_.Node("Slice", {x, g_.Integers({0}), g_.Integers({1}), g_.Integers({0})});
  }
  // The first rows of a table that may have more, and more dimensions before them.
  std::string Rows(const std::string& tensor, const std::string& count) {
    const std::string table = e_.Constant(tensor, {-1, s_.hidden});
    return g_.Node("Slice", {table, g_.Integers({0}), count, g_.Integers({0})});
  }

  // [channels, size, size] -> [patches, hidden]
  std::string Patches() {
    const ImageSpec& i = s_.image;
    const std::string pixels =
        g_.Input("pixel_values", DType::kF32, {1, i.channels, i.size, i.size});
    const auto in = e_.Activation(pixels, i.projection + ".input");
    const std::string y = e_.Conv(in, i.projection, {s_.hidden, i.channels, i.patch, i.patch},
                                  {i.patch, i.patch}, 0, i.bias);
    return Transpose(Reshape(y, {s_.hidden, -1}), {1, 0});
  }

  // One stored query over all positions, then an MLP: [1, hidden].
  std::string Pool(const std::string& x) {
    const PoolSpec& p = s_.pool;
    const int64_t width = s_.hidden / s_.heads;
    const std::string weight =
        e_.Constant(p.module + ".in_proj_weight", {3 * s_.hidden, s_.hidden});
    const std::string bias = e_.Constant(p.module + ".in_proj_bias", {3 * s_.hidden});
    const auto in = e_.Activation(x, p.module + ".in_proj.input");
    e_.NamedLayer(p.module + ".in_proj", in);
    const auto part = [&](const std::string& tensor, int64_t n) {
      return g_.Node("Slice", {tensor, g_.Integers({n * s_.hidden}),
                               g_.Integers({(n + 1) * s_.hidden}), g_.Integers({0})});
    };
    const auto project = [&](const std::string& rows, int64_t n) {
      const std::string y =
          g_.Node("Gemm", {rows, part(weight, n), part(bias, n)}, {{"transB", int64_t{1}}});
      return Transpose(Reshape(y, {-1, s_.heads, width}), {1, 0, 2});
    };
    const std::string probe = Reshape(e_.Constant(p.probe, {s_.hidden}), {1, s_.hidden});
    const std::string keys = Transpose(project(in.original, 1), {0, 2, 1});
    const std::string scores = e_.Times(g_.Node("MatMul", {project(probe, 0), keys}),
                                        1 / std::sqrt(static_cast<double>(width)));
    const std::string soft = g_.Node("Softmax", {scores}, {{"axis", int64_t{-1}}});
    const std::string mixed = g_.Node("MatMul", {soft, project(in.original, 2)});
    const auto out = e_.Activation(Reshape(mixed, {1, s_.hidden}), p.module + ".out_proj.input");
    const std::string y = e_.Linear(out, p.module + ".out_proj", s_.hidden, s_.hidden, true);
    const MlpSpec& m = s_.mlp;
    const std::string more =
        MlpWriter(s_, e_).Write(e_.Norm(s_.norm, y, p.norm, s_.hidden),
                                {p.mlp_prefix, m.gate, m.up, m.down, ""}, s_.intermediate);
    return g_.Node("Add", {y, more});
  }

  const DecoderSpec& s_;
  BlockEmitter e_;
  GraphBuilder& g_;
};

}  // namespace

PartGraph DecoderFront(const DecoderSpec& spec, PartOptions options) {
  return EndsWriter(spec, std::move(options)).Front();
}

PartGraph DecoderNorm(const DecoderSpec& spec, PartOptions options) {
  return EndsWriter(spec, std::move(options)).Tail();
}

PartGraph DecoderHead(const DecoderSpec& spec, PartOptions options) {
  return EndsWriter(spec, std::move(options)).Head();
}

std::vector<PartLayer> TailLayers(const DecoderSpec& spec) {
  std::vector<PartLayer> layers = DecoderNorm(spec, {}).layers;
  if (spec.head.name.empty() || spec.head.tied) return layers;
  for (PartLayer& layer : DecoderHead(spec, {}).layers) layers.push_back(std::move(layer));
  return layers;
}

}  // namespace hif8
