#include <type_traits>
#include <utility>

#include "lib/core/enum_names.h"
#include "lib/core/member_path.h"
#include "lib/model/safetensors/decoder_spec.h"
#include "lib/model/safetensors/description.h"
#include "lib/model/safetensors/description_values.h"

namespace hif8 {
namespace {

template <typename T>
constexpr KeyKind KindOf() {
  if constexpr (std::is_enum_v<T>) return KeyKind::kChoice;
  if constexpr (std::is_same_v<T, bool>) return KeyKind::kBool;
  if constexpr (std::is_same_v<T, double>) return KeyKind::kNumber;
  if constexpr (std::is_same_v<T, std::string>) return KeyKind::kName;
  if constexpr (std::is_same_v<T, std::vector<bool>>) return KeyKind::kBlocks;
  return KeyKind::kInteger;
}

template <typename T>
void Fill(DescriptionValues& values, const std::string& key, T& field) {
  if constexpr (std::is_enum_v<T>) {
    field = values.Choice<T>(key);
  } else if constexpr (std::is_same_v<T, bool>) {
    field = values.Bool(key);
  } else if constexpr (std::is_same_v<T, double>) {
    field = values.Number(key);
  } else if constexpr (std::is_same_v<T, std::string>) {
    field = values.Name(key);
  } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
    field = values.Blocks(key);
  } else {
    field = values.Integer(key);
  }
}

using Condition = bool (*)(const DecoderSpec& spec);

// Keys, each with the field that it fills.
class Table {
 public:
  // The rows to come; `when`: only networks of which that is true have such values.
  void Group(const char* prefix, Condition when = nullptr) {
    group_ = prefix;
    when_ = when;
  }
  void When(Condition when) { when_ = when; }

  template <typename F>
  Table& Add(const char* name, F field, const char* usual, const char* help) {
    using T = std::remove_cvref_t<decltype(field(std::declval<DecoderSpec&>()))>;
    DescriptionKey& key = Row(name, KindOf<T>(), usual, help);
    if constexpr (std::is_enum_v<T>) key.choices = NamesOf<T>();
    key.fill = [name = key.name, when = when_, field](DescriptionValues& values,
                                                      DecoderSpec* spec) {
      if (when == nullptr || when(*spec)) Fill(values, name, field(*spec));
    };
    return *this;
  }
  // The row that was added last.
  void Kind(KeyKind kind) { keys_.back().kind = kind; }
  // A row that others refer to.
  DescriptionKey& Row(const char* name, KeyKind kind, const char* usual, const char* help) {
    keys_.push_back({group_ + name, kind, usual, help, {}, nullptr});
    return keys_.back();
  }

  std::vector<DescriptionKey> Take() { return std::move(keys_); }

 private:
  std::string group_;
  Condition when_ = nullptr;
  std::vector<DescriptionKey> keys_;
};

using S = DecoderSpec;
using enum KeyKind;

bool IsImage(const S& s) { return s.input == InputType::kImage; }
bool HasPool(const S& s) { return s.pool.type == Pooling::kAttention; }
bool HasExperts(const S& s) { return s.experts.count > 0; }
bool IsLatent(const S& s) { return s.attention.type == AttentionType::kLatent; }

void AddSizes(Table* t) {
  t->Add("hidden_size", At(&S::hidden), "$hidden_size", "width of the residual stream").Kind(kSize);
  t->Add("intermediate_size", At(&S::intermediate), "$intermediate_size", "width of a dense MLP")
      .Kind(kSize);
  t->Add("vocab_size", At(&S::vocabulary), "$vocab_size | 0", "tokens");
  t->Add("num_layers", At(&S::blocks), "$num_hidden_layers", "blocks").Kind(kSize);
  t->Add("block_list", At(&S::block_list), "layers", "module of the blocks");
  t->Row("layer_types", kBlockTypes, "full_attention", "a word for every block, for equals()");
  t->Add("parallel", At(&S::parallel), "false", "attention and MLP read the same normalised input");
  t->Add("residual_multiplier", At(&S::residual_multiplier), "1", "of what attention and MLP add");
}

void AddEnds(Table* t) {
  t->Group("input.");
  t->Add("type", At(&S::input), "tokens", "image: square images, cut into patches");
  t->When(IsImage);
  t->Add("size", At(&S::image, &ImageSpec::size), "$image_size", "height and width").Kind(kSize);
  t->Add("channels", At(&S::image, &ImageSpec::channels), "$num_channels | 3", "").Kind(kSize);
  t->Add("patch", At(&S::image, &ImageSpec::patch), "$patch_size", "height and width of a patch")
      .Kind(kSize);
  t->Add("projection", At(&S::image, &ImageSpec::projection), "embeddings.patch_embedding",
         "module of the convolution over patches");
  t->Add("bias", At(&S::image, &ImageSpec::bias), "true", "it has a bias");

  t->Group("embedding.");
  t->Add("name", At(&S::embedding, &EmbeddingSpec::name), "embed_tokens",
         "module of the embedding");
  t->Add("multiplier", At(&S::embedding, &EmbeddingSpec::multiplier), "1", "of the embeddings");
  t->Add("class_token", At(&S::embedding, &EmbeddingSpec::class_token), "none",
         "tensor: a position before all others");
  t->Add("positions", At(&S::embedding, &EmbeddingSpec::positions), "none",
         "tensor with a row for every position, added");
  t->Add("types", At(&S::embedding, &EmbeddingSpec::types), "none",
         "tensor whose first row is added");
  t->Add("norm", At(&S::embedding, &EmbeddingSpec::norm), "none", "norm before the first block");

  t->Group("pool.");
  t->Add("type", At(&S::pool, &PoolSpec::type), "none",
         "which positions go to the head; attention: one stored query sees all");
  t->When(HasPool);
  t->Add("probe", At(&S::pool, &PoolSpec::probe), "head.probe", "tensor of the query");
  t->Add("attention", At(&S::pool, &PoolSpec::module), "head.attention",
         "module with in_proj_weight and out_proj");
  t->Add("norm", At(&S::pool, &PoolSpec::norm), "head.layernorm", "before the MLP behind it");
  t->Add("mlp", At(&S::pool, &PoolSpec::mlp_prefix), "head.mlp.",
         "beginning of that MLP's modules");

  t->Group("head.");
  t->Add("name", At(&S::head, &HeadSpec::name), "lm_head", "module of the head");
  t->Add("rows", At(&S::head, &HeadSpec::rows), "vocab_size",
         "tokens or classes; 0: as the file has");
  t->Add("tied", At(&S::head, &HeadSpec::tied), "$tie_word_embeddings | false",
         "the embedding's weight is the head's");
  t->Add("bias", At(&S::head, &HeadSpec::bias), "none", "tensor added to the logits");
  t->Add("multiplier", At(&S::head, &HeadSpec::multiplier), "1", "of the logits");
  t->Add("soft_cap", At(&S::head, &HeadSpec::soft_cap), "0",
         "c: logits are c tanh(logits / c); 0: none");
  t->Add("transform", At(&S::head, &HeadSpec::transform), "none",
         "Linear before the head, followed by mlp.activation");
  t->Add("transform_bias", At(&S::head, &HeadSpec::transform_bias), "true", "it has a bias");
  t->Add("norm", At(&S::head, &HeadSpec::norm), "none", "norm behind that Linear");

  t->Group("norm.");
  t->Add("type", At(&S::norm, &NormSpec::type), "rms",
         "rms_plus_one: weights are stored minus 1; layer: mean subtracted");
  t->Add("epsilon", At(&S::norm, &NormSpec::epsilon), "$rms_norm_eps | 0.000001",
         "added to the mean square");
  t->Add("bias", At(&S::norm, &NormSpec::bias), "false", "layer norms have biases");
  t->Add("input", At(&S::norm, &NormSpec::input), "input_layernorm", "before attention");
  t->Add("input_layers", At(&S::flags, &BlockFlags::input_norm), "true",
         "blocks that have that norm");
  t->Add("attention_output", At(&S::norm, &NormSpec::attention_output), "none",
         "on what attention adds");
  t->Add("attention_sum", At(&S::norm, &NormSpec::attention_sum), "none",
         "on the residual stream behind attention");
  t->Add("mlp_input", At(&S::norm, &NormSpec::mlp_input), "post_attention_layernorm",
         "before the MLP");
  t->Add("mlp_output", At(&S::norm, &NormSpec::mlp_output), "none", "on what the MLP adds");
  t->Add("mlp_sum", At(&S::norm, &NormSpec::mlp_sum), "none",
         "on the residual stream behind the MLP");
  t->Add("final", At(&S::norm, &NormSpec::final), "norm", "behind the last block");
}

void AddAttention(Table* t) {
  t->Group("attention.");
  t->Add("type", At(&S::attention, &AttentionSpec::type), "heads",
         "latent: keys and values from one vector");
  t->Add("causal", At(&S::attention, &AttentionSpec::causal), "true",
         "false: positions see those behind them, too");
  t->Add("heads", At(&S::heads), "$num_attention_heads", "heads of the queries").Kind(kSize);
  t->Add("kv_heads", At(&S::kv_heads), "$num_key_value_heads | attention.heads",
         "heads of keys and values")
      .Kind(kSize);
  t->Add("head_dim", At(&S::head_dim), "$head_dim | hidden_size / attention.heads",
         "elements of a head")
      .Kind(kSize);
  t->Add("scale", At(&S::softmax_scale), "1 / sqrt(attention.head_dim)", "of the scores");
  t->Add("soft_cap", At(&S::attention, &AttentionSpec::soft_cap), "0",
         "c: scores are c tanh(scores / c); 0: none");
  t->Add("sinks", At(&S::attention, &AttentionSpec::sinks), "none",
         "tensor with one more score per head, of nothing");
  t->Add("output_gate", At(&S::attention, &AttentionSpec::output_gate), "false",
         "behind each head of q lie a gate's elements; o reads attention * sigmoid(gate)");
  t->Add("qkv_bias", At(&S::attention, &AttentionSpec::qkv_bias), "false",
         "q, k and v have biases");
  t->Add("key_bias", At(&S::attention, &AttentionSpec::key_bias), "attention.qkv_bias",
         "k has one");
  t->Add("output_bias", At(&S::attention, &AttentionSpec::output_bias), "false", "o has one");
  t->Add("q", At(&S::attention, &AttentionSpec::q), "self_attn.q_proj", "module of the queries");
  t->Add("k", At(&S::attention, &AttentionSpec::k), "self_attn.k_proj", "module of the keys");
  t->Add("v", At(&S::attention, &AttentionSpec::v), "self_attn.v_proj", "module of the values");
  t->Add("qkv", At(&S::attention, &AttentionSpec::qkv), "none",
         "module of all three, one behind the other, instead");
  t->Add("o", At(&S::attention, &AttentionSpec::o), "self_attn.o_proj", "module of the output");
  t->Add("window", At(&S::attention, &AttentionSpec::window), "0",
         "keys that a query sees, its own included; not causal: on each side; 0: all");
  t->Add("windowed", At(&S::flags, &BlockFlags::windowed), "equals(layer_types, sliding_attention)",
         "blocks with the window");
  t->Add("chunk", At(&S::attention, &AttentionSpec::chunk), "0",
         "positions of a chunk, whose queries see only its keys; 0: none");
  t->Add("chunked", At(&S::flags, &BlockFlags::chunked), "equals(layer_types, chunked_attention)",
         "blocks with chunks");
}

void AddQueries(Table* t) {
  t->Group("attention.norm.");
  t->Add("over", At(&S::attention, &AttentionSpec::norm, &QkNormSpec::over), "none",
         "what q and k are normalised over");
  t->Add("layers", At(&S::flags, &BlockFlags::qk_norm), "true", "blocks that do it");
  t->Add("after_rope", At(&S::attention, &AttentionSpec::norm, &QkNormSpec::after_rope), "false",
         "after the rotation, not before it");
  t->Add("weight", At(&S::attention, &AttentionSpec::norm, &QkNormSpec::weight), "true",
         "false: divided by the root mean square only");
  t->Add("query", At(&S::attention, &AttentionSpec::norm, &QkNormSpec::query), "self_attn.q_norm",
         "module of the norm of q");
  t->Add("key", At(&S::attention, &AttentionSpec::norm, &QkNormSpec::key), "self_attn.k_norm",
         "module of the norm of k");

  t->Group("attention.temperature.");
  t->Add("layers", At(&S::flags, &BlockFlags::tempered), "false",
         "blocks whose queries are multiplied by 1 + scale ln(1 + floor((position + 1) / floor))");
  t->Add("scale", At(&S::attention, &AttentionSpec::temperature, &TemperatureSpec::scale),
         "$attn_scale | 0.1", "");
  t->Add("floor", At(&S::attention, &AttentionSpec::temperature, &TemperatureSpec::floor),
         "$floor_scale | 8192", "");
}

void AddRope(Table* t) {
  t->Group("rope.");
  t->Add("layers", At(&S::flags, &BlockFlags::rotated), "true",
         "blocks whose queries and keys are rotated");
  t->Add("theta", At(&S::rotation, &RotationSpec::theta), "$rope_theta | 10000",
         "base of the frequencies");
  t->Add("dim", At(&S::rotation, &RotationSpec::dimension),
         "attention.head_dim * ($partial_rotary_factor | 1)",
         "elements of a head that are rotated, from the first on")
      .Kind(kInteger);
  t->Add("interleaved", At(&S::rotation, &RotationSpec::interleaved), "false",
         "pairs are neighbours, not first and second half");
  t->Add("local_layers", At(&S::flags, &BlockFlags::local_rope), "false",
         "blocks with local_theta and without scaling");
  t->Add("local_theta", At(&S::rotation, &RotationSpec::local_theta), "rope.theta", "their base");
}

void AddOtherAttention(Table* t) {
  t->Group("latent.", IsLatent);
  t->Add("q_rank", At(&S::latent, &LatentSpec::q_rank), "$q_lora_rank | 0",
         "width of the compressed queries; 0: q as it is");
  t->Add("kv_rank", At(&S::latent, &LatentSpec::kv_rank), "$kv_lora_rank",
         "width of the compressed keys and values")
      .Kind(kSize);
  t->Add("nope_dim", At(&S::latent, &LatentSpec::nope), "$qk_nope_head_dim",
         "elements of a head that are not rotated")
      .Kind(kSize);
  t->Add("rope_dim", At(&S::latent, &LatentSpec::rope), "$qk_rope_head_dim",
         "elements of a head that are")
      .Kind(kSize);
  t->Add("value_dim", At(&S::latent, &LatentSpec::value), "$v_head_dim",
         "elements of a head of the values")
      .Kind(kSize);
  t->Add("epsilon", At(&S::latent, &LatentSpec::epsilon), "norm.epsilon",
         "of the norms of what is compressed");

  t->Group("indexer.");
  t->Add("keys", At(&S::indexer, &IndexerSpec::keys), "0",
         "keys that each query sees, chosen by an indexer; 0: none");
  t->Add("heads", At(&S::indexer, &IndexerSpec::heads), "$index_n_heads | 0", "its heads");
  t->Add("head_dim", At(&S::indexer, &IndexerSpec::head_dim), "$index_head_dim | 0",
         "their elements");

  t->Group("linear_attention.");
  t->Add("layers", At(&S::flags, &BlockFlags::linear), "false",
         "blocks with a gated delta rule instead of attention");
  t->Add("key_heads", At(&S::linear, &LinearAttentionSpec::key_heads), "$linear_num_key_heads | 0",
         "");
  t->Add("value_heads", At(&S::linear, &LinearAttentionSpec::value_heads),
         "$linear_num_value_heads | 0", "");
  t->Add("key_dim", At(&S::linear, &LinearAttentionSpec::key_dim), "$linear_key_head_dim | 0",
         "elements of a head of keys");
  t->Add("value_dim", At(&S::linear, &LinearAttentionSpec::value_dim), "$linear_value_head_dim | 0",
         "elements of a head of values");
  t->Add("kernel", At(&S::linear, &LinearAttentionSpec::kernel), "$linear_conv_kernel_dim | 4",
         "taps of the convolution before it");
}

void AddMlp(Table* t) {
  t->Group("mlp.");
  t->Add("activation", At(&S::mlp, &MlpSpec::activation), "$hidden_act | silu", "of the gate");
  t->Add("limit", At(&S::mlp, &MlpSpec::limit), "7", "of clamped_swiglu");
  t->Add("alpha", At(&S::mlp, &MlpSpec::alpha), "1.702", "of clamped_swiglu");
  t->Add("bias", At(&S::mlp, &MlpSpec::bias), "false", "its Linears have biases");
  t->Add("prefix", At(&S::mlp, &MlpSpec::prefix), "mlp.", "beginning of its modules");
  t->Add("gate", At(&S::mlp, &MlpSpec::gate), "gate_proj", "none: down(act(up(x)))");
  t->Add("up", At(&S::mlp, &MlpSpec::up), "up_proj", "");
  t->Add("down", At(&S::mlp, &MlpSpec::down), "down_proj", "");
  t->Add("gate_up", At(&S::mlp, &MlpSpec::fused), "none",
         "module of gate and up, one behind the other, instead");

  t->Group("experts.");
  t->Add("count", At(&S::experts, &ExpertsSpec::count), "0",
         "experts of a block; 0: no block has any");
  t->When(HasExperts);
  t->Add("per_token", At(&S::experts, &ExpertsSpec::per_row), "$num_experts_per_tok | 0",
         "that each token goes to");
  t->Add("intermediate_size", At(&S::experts, &ExpertsSpec::intermediate),
         "$moe_intermediate_size | intermediate_size", "width of one");
  t->Add("layers", At(&S::flags, &BlockFlags::sparse), "true", "blocks with experts");
  t->Add("router", At(&S::experts, &ExpertsSpec::router), "mlp.gate",
         "module that gives the logits");
  t->Add("router_bias", At(&S::experts, &ExpertsSpec::router_bias), "false", "it has a bias");
  t->Add("score", At(&S::experts, &ExpertsSpec::score), "softmax", "from logits to weights");
  t->Add("correction", At(&S::experts, &ExpertsSpec::correction), "none",
         "tensor added to scores when experts are chosen");
  t->Add("groups", At(&S::experts, &ExpertsSpec::groups), "1", "groups of experts");
  t->Add("groups_used", At(&S::experts, &ExpertsSpec::groups_used), "1",
         "experts are chosen from so many best groups");
  t->Add("group_score", At(&S::experts, &ExpertsSpec::group_score), "sum_of_two",
         "of which experts' scores");
  t->Add("normalized", At(&S::experts, &ExpertsSpec::normalised), "false",
         "weights are divided by their sum");
  t->Add("scaling", At(&S::experts, &ExpertsSpec::scaling), "1", "of the weights");
  t->Add("weight_input", At(&S::experts, &ExpertsSpec::weight_input), "false",
         "weights multiply what an expert reads, not what it gives");
  t->Add("prefix", At(&S::experts, &ExpertsSpec::prefix), "mlp.experts.",
         "beginning of the experts' modules");
  t->Add("gate", At(&S::experts, &ExpertsSpec::gate), "gate_proj", "");
  t->Add("up", At(&S::experts, &ExpertsSpec::up), "up_proj", "");
  t->Add("down", At(&S::experts, &ExpertsSpec::down), "down_proj", "");
  t->Add("fused_gate_up", At(&S::experts, &ExpertsSpec::fused_gate_up), "gate_up_proj",
         "tensor of all experts, where the file has it");
  t->Add("fused_down", At(&S::experts, &ExpertsSpec::fused_down), "down_proj", "the same");
  t->Add("fused_layout", At(&S::experts, &ExpertsSpec::layout), "out_in",
         "dimensions behind the experts'");
  t->Add("interleaved", At(&S::experts, &ExpertsSpec::interleaved), "false",
         "gate and up alternate in the fused tensor");
  t->Add("bias", At(&S::experts, &ExpertsSpec::bias), "false",
         "fused tensors have NAME_bias beside them");

  t->Group("shared_expert.", HasExperts);
  t->Add("intermediate_size", At(&S::experts, &ExpertsSpec::shared), "0",
         "width of what every token goes to; 0: none");
  t->Add("prefix", At(&S::experts, &ExpertsSpec::shared_prefix), "mlp.shared_experts.",
         "beginning of its modules");
  t->Add("gate", At(&S::experts, &ExpertsSpec::shared_gate), "none",
         "module of one row; its sigmoid multiplies the shared expert");
}

std::vector<DescriptionKey> MakeKeys() {
  Table table;
  for (const auto add :
       {AddSizes, AddEnds, AddAttention, AddQueries, AddRope, AddOtherAttention, AddMlp})
    add(&table);
  return table.Take();
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

}  // namespace hif8
