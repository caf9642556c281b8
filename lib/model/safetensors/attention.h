// The attention of a decoder's block as part of its graph. Internal to this module.
#pragma once

#include <string>
#include <vector>

#include "lib/model/safetensors/block_emitter.h"
#include "lib/model/safetensors/decoder_spec.h"

namespace hif8 {

class AttentionWriter {
 public:
  // The arguments must outlive the object. Adds the graph inputs "mask" and, where the block's kind
  // has them, "cosines", "sines" and "temperatures".
  AttentionWriter(const DecoderSpec& spec, BlockKind kind, BlockEmitter& emitter);

  // Writes what attention adds to the residual stream, from its normalised input [T, hidden].
  std::string Write(const std::string& normed);

 private:
  using Operand = BlockEmitter::Operand;

  std::string Heads(const std::string& normed);
  // Keeps x in the cache of that name, or in one for each head.
  std::string Cache(const std::string& x, const std::string& name);
  std::string Latent(const std::string& normed);
  // Returns the compressed queries' operand and the queries, [T, heads * head].
  std::string LatentQueries(const Operand& in, Operand* compressed);
  // [T, T]: 0 for the keys that the indexer chose, else -infinity.
  std::string Chosen(const Operand& in, const Operand& compressed);
  // softmax(q k^T * scale + mask) v, [heads, T, value_dim].
  std::string Mix(const std::string& queries, const std::string& keys, const std::string& values,
                  int64_t kv_heads, int64_t key_dim, int64_t value_dim);
  std::string Softmax(const std::string& masked, const std::string& length);
  // [heads, T, n] through the output's Linear, width = heads * n; `gate` may be empty.
  std::string Project(const std::string& mixed, int64_t width, const std::string& gate);

  // [T, heads * head_dim] -> [heads, T, head_dim], normalised and rotated as the block wants it.
  std::string ByHead(const std::string& x, int64_t heads, const std::string& norm);
  std::string Norm(const std::string& x, const std::string& name, int64_t size);
  // [heads, T, head_dim]: turns pairs of the first elements against each other.
  std::string Rotate(const std::string& x, int64_t heads, int64_t width, bool interleaved);
  std::string Pair(const std::string& x, int64_t heads, int64_t width);

  std::string Reshape(const std::string& x, const std::vector<int64_t>& shape);
  std::string Transpose(const std::string& x, const std::vector<int64_t>& order);
  std::string Concat(const std::vector<std::string>& parts);
  // Into pieces along the last dimension.
  std::vector<std::string> Split(const std::string& x, const std::vector<int64_t>& sizes);
  // c tanh(x / c), or x where the cap is 0.
  std::string Scaled(const std::string& x, double factor);

  const DecoderSpec& s_;
  const AttentionSpec& a_;
  BlockKind kind_;
  BlockEmitter& e_;
  GraphBuilder& g_;
  std::string cosines_, sines_, mask_, temperatures_;
};

}  // namespace hif8
