#include "lib/model/safetensors/layer_roles.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "lib/model/safetensors/tensor_roles.h"

namespace hif8 {
namespace {

// What the description says of a module that is no ordinary layer.
struct Role {
  const char* op = "Linear";
  const char* option = "";  // asks for it
  const char* reason = "";  // it is kept for
};

constexpr const char* kRouters = "routers stay in high precision";
constexpr const char* kOrientation =
    "which dimension its inputs are is not known without a description of the network";

std::string ModuleOf(const std::string& tensor) {
  constexpr std::string_view kWeight = ".weight";
  return tensor.ends_with(kWeight) ? tensor.substr(0, tensor.size() - kWeight.size()) : tensor;
}

std::map<std::string, Role> RolesOf(const Network& network) {
  const DecoderSpec& spec = network.spec;
  std::map<std::string, Role> roles;
  if (!spec.head.name.empty() && !spec.head.tied) {
    roles[spec.head.name] = {"Linear", "lm_head", ""};
  }
  if (!network.embedding.empty()) {
    roles[ModuleOf(network.embedding)] = {"Embedding", "embeddings", ""};
  }
  for (const std::string& table : {spec.embedding.positions, spec.embedding.types}) {
    if (table.empty()) continue;
    roles[ModuleOf(network.prefix + table)] = {"Embedding", "",
                                               "tables of positions stay in high precision"};
  }
  for (int64_t b = 0; b < spec.blocks; ++b) {
    const std::string prefix = network.BlockPrefix(b);
    const BlockKind& kind = spec.At(b).kind;
    if (kind.sparse) {
      roles[prefix + spec.experts.router] = {"Linear", "", kRouters};
      if (!spec.experts.shared_gate.empty()) {
        roles[prefix + spec.experts.shared_gate] = {"Linear", "",
                                                    "gates of experts stay in high precision"};
      }
    }
    if (spec.indexer.keys > 0) {
      roles[prefix + spec.attention.Module() + ".indexer.weights_proj"] = {
          "Linear", "", "weights of the indexer stay in high precision"};
    }
    if (kind.linear) {
      roles[prefix + "linear_attn.in_proj_ba"] = {
          "Linear", "", "gates of linear attention stay in high precision"};
      roles[prefix + "linear_attn.conv1d"] = {
          "Conv", "", "convolutions of linear attention stay in high precision"};
    }
  }
  return roles;
}

int64_t BlockCount(const ModelConfig& config) {
  constexpr const char* kBlocks = "num_hidden_layers";
  return config.Integer(kBlocks, config.Object("text_config").Integer(kBlocks, INT64_MAX));
}

class RoleMaker {
 public:
  RoleMaker(const Network* network, const ModelConfig& config, std::vector<Layer>* layers,
            std::vector<Weight>* weights)
      : network_(network), layers_(*layers), weights_(*weights), blocks_(BlockCount(config)) {
    if (network != nullptr) roles_ = RolesOf(*network);
    // What predicts tokens has a head; without one, a tower is the model itself.
    for (const Layer& layer : layers_) {
      if (layer.weight < 0) continue;
      const TensorPlace place = PlaceOf(layer);
      text_model_ |= place.role == TensorRole::kHead && !place.tower;
    }
    text_model_ |= config.Bool("tie_word_embeddings", false);
  }

  void Run() {
    for (Layer& layer : layers_) {
      if (layer.weight < 0) continue;
      layer.macs = static_cast<double>(weights_[static_cast<size_t>(layer.weight)].size());
      const auto role = roles_.find(layer.name);
      if (role != roles_.end()) {
        Take(role->second, &layer);
      } else if (network_ == nullptr || layer.activation < 0) {
        ByName(&layer);
      }
      layer.optional = !layer.option.empty();
      // Of a convolution they are those of each place, of which only a description says how many.
      if (layer.op == "Embedding" || (layer.op == "Conv" && layer.activation < 0)) layer.macs = 0;
      OrientExperts(layer, &weights_[static_cast<size_t>(layer.weight)]);
    }
  }

 private:
  TensorPlace PlaceOf(const Layer& layer) const {
    const Weight& weight = weights_[static_cast<size_t>(layer.weight)];
    return PlaceTensor(weight.name, weight.shape);
  }

  static void Keep(const std::string& reason, Layer* layer) {
    if (layer->unsupported.empty()) layer->unsupported = reason;
  }

  static void Take(const Role& role, Layer* layer) {
    layer->op = role.op;
    layer->option = role.option;
    if (*role.reason != '\0') Keep(role.reason, layer);
  }

  // A guess; what lies beside a described network has no other.
  void ByName(Layer* layer) const {
    const TensorPlace place = PlaceOf(*layer);
    const Shape& shape = weights_[static_cast<size_t>(layer->weight)].shape;
    const std::string by_name = network_ == nullptr ? " (one by its name)" : "";
    const bool behind = place.block >= blocks_;
    layer->block = behind || network_ != nullptr ? -1 : place.block;
    if (place.role == TensorRole::kHead) layer->option = "lm_head";
    if (place.role == TensorRole::kEmbedding) {
      layer->op = "Embedding";
      layer->option = "embeddings";
    }
    if (place.role == TensorRole::kRouter) Keep(kRouters + by_name, layer);
    if (place.role == TensorRole::kConv) {
      layer->op = "Conv";
      const bool sequence = shape.size() == 3 && shape[1] == 1;
      if (sequence) Keep("depthwise convolutions of sequences stay in high precision", layer);
    }
    if (behind || place.draft) {
      layer->beside = "part of multi-token prediction, which no run reaches";
    } else if (place.tower && (network_ != nullptr || text_model_)) {
      layer->beside = "part of a tower for images or sounds beside the language model";
    } else if (network_ != nullptr) {
      layer->beside = "beside the network that is described";
    }
  }

  // Which dimension of a tensor of all experts is its inputs, the description says.
  void OrientExperts(Layer& layer, Weight* weight) const {
    if (weight->shape.size() != 3 || layer.op == "Conv") return;
    const ExpertsSpec* experts = network_ == nullptr ? nullptr : &network_->spec.experts;
    const bool known = experts != nullptr && (layer.name.ends_with("." + experts->fused_gate_up) ||
                                              layer.name.ends_with("." + experts->fused_down));
    if (!known) return Keep(kOrientation, &layer);
    if (experts->layout == ExpertLayout::kInOut) {
      weight->channels = ChannelLayout::Axis(weight->shape, 2, 1);
    }
  }

  const Network* network_;
  std::vector<Layer>& layers_;
  std::vector<Weight>& weights_;
  int64_t blocks_;
  bool text_model_ = false;
  std::map<std::string, Role> roles_;
};

}  // namespace

void AssignRoles(const Network* network, const ModelConfig& config, std::vector<Layer>* layers,
                 std::vector<Weight>* weights) {
  RoleMaker(network, config, layers, weights).Run();
}

}  // namespace hif8
