#include "lib/core/enum_names.h"
#include "lib/model/safetensors/decoder_spec.h"
#include "lib/model/safetensors/description.h"

namespace hif8 {
namespace {

std::vector<DescriptionKey> MakeKeys() {
  std::vector<DescriptionKey> keys;
  std::string group;
  const auto add = [&](const char* name, KeyKind kind, const char* usual, const char* help) {
    keys.push_back({group + name, kind, usual, help, {}});
  };
  const auto choice = [&](const char* name, std::vector<std::string> choices, const char* usual,
                          const char* help) {
    keys.push_back({group + name, KeyKind::kChoice, usual, help, std::move(choices)});
  };
  using enum KeyKind;
  add("hidden_size", kSize, "$hidden_size", "width of the residual stream");
  add("intermediate_size", kSize, "$intermediate_size", "width of a dense MLP");
  add("vocab_size", kSize, "$vocab_size", "tokens");
  add("num_layers", kSize, "$num_hidden_layers", "blocks");
  add("layer_types", kBlockTypes, "full_attention", "a word for every block, for equals()");
  add("parallel", kBool, "false", "attention and MLP read the same normalised input");
  add("residual_multiplier", kNumber, "1", "of what attention and MLP add");

  group = "embedding.";
  add("name", kName, "embed_tokens", "module of the embedding");
  add("multiplier", kNumber, "1", "of the embeddings");

  group = "head.";
  add("name", kName, "lm_head", "module of the head");
  add("tied", kBool, "$tie_word_embeddings | false", "the embedding's weight is the head's");
  add("multiplier", kNumber, "1", "of the logits");
  add("soft_cap", kNumber, "0", "c: logits are c tanh(logits / c); 0: none");

  group = "norm.";
  choice("type", NamesOf<NormType>(), "rms",
         "rms_plus_one: weights are stored minus 1; layer: mean subtracted, no bias");
  add("epsilon", kNumber, "$rms_norm_eps | 0.000001", "added to the mean square");
  add("input", kName, "input_layernorm", "before attention");
  add("attention_output", kName, "none", "on what attention adds");
  add("mlp_input", kName, "post_attention_layernorm", "before the MLP");
  add("mlp_output", kName, "none", "on what the MLP adds");
  add("final", kName, "norm", "behind the last block");

  group = "attention.";
  choice("type", NamesOf<AttentionType>(), "heads", "latent: keys and values from one vector");
  add("heads", kSize, "$num_attention_heads", "heads of the queries");
  add("kv_heads", kSize, "$num_key_value_heads | attention.heads", "heads of keys and values");
  add("head_dim", kSize, "$head_dim | hidden_size / attention.heads", "elements of a head");
  add("scale", kNumber, "1 / sqrt(attention.head_dim)", "of the scores");
  add("soft_cap", kNumber, "0", "c: scores are c tanh(scores / c); 0: none");
  add("sinks", kName, "none", "tensor with one more score per head, of nothing");
  add("output_gate", kBool, "false",
      "behind each head of q lie a gate's elements; o reads attention * sigmoid(gate)");
  add("qkv_bias", kBool, "false", "q, k and v have biases");
  add("output_bias", kBool, "false", "o has one");
  add("q", kName, "self_attn.q_proj", "module of the queries");
  add("k", kName, "self_attn.k_proj", "module of the keys");
  add("v", kName, "self_attn.v_proj", "module of the values");
  add("qkv", kName, "none", "module of all three, one behind the other, instead");
  add("o", kName, "self_attn.o_proj", "module of the output");
  add("window", kInteger, "0", "keys that a query sees, its own included; 0: all before");
  add("windowed", kBlocks, "equals(layer_types, sliding_attention)", "blocks with the window");
  add("chunk", kInteger, "0", "positions of a chunk, whose queries see only its keys; 0: none");
  add("chunked", kBlocks, "equals(layer_types, chunked_attention)", "blocks with chunks");

  group = "attention.norm.";
  choice("over", NamesOf<QkNorm>(), "none", "what q and k are normalised over");
  add("layers", kBlocks, "true", "blocks that do it");
  add("after_rope", kBool, "false", "after the rotation, not before it");
  add("weight", kBool, "true", "false: divided by the root mean square only");
  add("query", kName, "self_attn.q_norm", "module of the norm of q");
  add("key", kName, "self_attn.k_norm", "module of the norm of k");

  group = "attention.temperature.";
  add("layers", kBlocks, "false",
      "blocks whose queries are multiplied by 1 + scale ln(1 + floor((position + 1) / floor))");
  add("scale", kNumber, "$attn_scale | 0.1", "");
  add("floor", kNumber, "$floor_scale | 8192", "");

  group = "rope.";
  add("layers", kBlocks, "true", "blocks whose queries and keys are rotated");
  add("theta", kNumber, "$rope_theta | 10000", "base of the frequencies");
  add("dim", kInteger, "attention.head_dim * ($partial_rotary_factor | 1)",
      "elements of a head that are rotated, from the first on");
  add("interleaved", kBool, "false", "pairs are neighbours, not first and second half");
  add("local_layers", kBlocks, "false", "blocks with local_theta and without scaling");
  add("local_theta", kNumber, "rope.theta", "their base");

  group = "latent.";
  add("q_rank", kInteger, "$q_lora_rank | 0", "width of the compressed queries; 0: q as it is");
  add("kv_rank", kSize, "$kv_lora_rank", "width of the compressed keys and values");
  add("nope_dim", kSize, "$qk_nope_head_dim", "elements of a head that are not rotated");
  add("rope_dim", kSize, "$qk_rope_head_dim", "elements of a head that are");
  add("value_dim", kSize, "$v_head_dim", "elements of a head of the values");
  add("epsilon", kNumber, "norm.epsilon", "of the norms of what is compressed");

  group = "indexer.";
  add("keys", kInteger, "0", "keys that each query sees, chosen by an indexer; 0: none");
  add("heads", kInteger, "$index_n_heads | 0", "its heads");
  add("head_dim", kInteger, "$index_head_dim | 0", "their elements");

  group = "linear_attention.";
  add("layers", kBlocks, "false", "blocks with a gated delta rule instead of attention");
  add("key_heads", kInteger, "$linear_num_key_heads | 0", "");
  add("value_heads", kInteger, "$linear_num_value_heads | 0", "");
  add("key_dim", kInteger, "$linear_key_head_dim | 0", "elements of a head of keys");
  add("value_dim", kInteger, "$linear_value_head_dim | 0", "elements of a head of values");
  add("kernel", kInteger, "$linear_conv_kernel_dim | 4", "taps of the convolution before it");

  group = "mlp.";
  choice("activation", NamesOf<ActivationFunction>(), "$hidden_act | silu", "of the gate");
  add("limit", kNumber, "7", "of clamped_swiglu");
  add("alpha", kNumber, "1.702", "of clamped_swiglu");
  add("bias", kBool, "false", "its Linears have biases");
  add("prefix", kName, "mlp.", "beginning of its modules");
  add("gate", kName, "gate_proj", "");
  add("up", kName, "up_proj", "");
  add("down", kName, "down_proj", "");
  add("gate_up", kName, "none", "module of gate and up, one behind the other, instead");

  group = "experts.";
  add("count", kInteger, "0", "experts of a block; 0: no block has any");
  add("per_token", kInteger, "$num_experts_per_tok | 0", "that each token goes to");
  add("intermediate_size", kInteger, "$moe_intermediate_size | intermediate_size", "width of one");
  add("layers", kBlocks, "true", "blocks with experts");
  add("router", kName, "mlp.gate", "module that gives the logits");
  add("router_bias", kBool, "false", "it has a bias");
  choice("score", NamesOf<RouterScore>(), "softmax", "from logits to weights");
  add("correction", kName, "none", "tensor added to scores when experts are chosen");
  add("groups", kInteger, "1", "groups of experts");
  add("groups_used", kInteger, "1", "experts are chosen from so many best groups");
  choice("group_score", NamesOf<GroupScore>(), "sum_of_two", "of which experts' scores");
  add("normalized", kBool, "false", "weights are divided by their sum");
  add("scaling", kNumber, "1", "of the weights");
  add("weight_input", kBool, "false", "weights multiply what an expert reads, not what it gives");
  add("prefix", kName, "mlp.experts.", "beginning of the experts' modules");
  add("gate", kName, "gate_proj", "");
  add("up", kName, "up_proj", "");
  add("down", kName, "down_proj", "");
  add("fused_gate_up", kName, "gate_up_proj", "tensor of all experts, where the file has it");
  add("fused_down", kName, "down_proj", "the same");
  choice("fused_layout", NamesOf<ExpertLayout>(), "out_in", "dimensions behind the experts'");
  add("interleaved", kBool, "false", "gate and up alternate in the fused tensor");
  add("bias", kBool, "false", "fused tensors have NAME_bias beside them");

  group = "shared_expert.";
  add("intermediate_size", kInteger, "0", "width of what every token goes to; 0: none");
  add("prefix", kName, "mlp.shared_experts.", "beginning of its modules");
  add("gate", kName, "none", "module of one row; its sigmoid multiplies the shared expert");
  return keys;
}

}  // namespace

std::span<const DescriptionKey> DescriptionKeys() {
  static const std::vector<DescriptionKey> keys = MakeKeys();
  return keys;
}

const DescriptionKey* FindDescriptionKey(std::string_view name) {
  for (const DescriptionKey& key : DescriptionKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::string ExpectedText(const DescriptionKey& key) {
  switch (key.kind) {
    case KeyKind::kNumber:
      return "a number";
    case KeyKind::kInteger:
      return "an integer from 0";
    case KeyKind::kSize:
      return "an integer from 1";
    case KeyKind::kBool:
      return "true or false";
    case KeyKind::kBlocks:
      return "true or false, or a list of them with an entry for every block";
    case KeyKind::kBlockTypes:
      return "a word, or a list of words with an entry for every block";
    case KeyKind::kName:
      return "a name";
    case KeyKind::kChoice: {
      std::string text = "one of ";
      for (const std::string& choice : key.choices) {
        text += (&choice == key.choices.data() ? "" : ", ") + choice;
      }
      return text;
    }
  }
  return {};
}

}  // namespace hif8
