#include "lib/model/safetensors/tensor_roles.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace hif8 {
namespace {

template <size_t N>
bool IsOneOf(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view LastComponent(std::string_view module) {
  const size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? module : module.substr(dot + 1);
}

// Names of modules as the common model families have them.
constexpr std::array<std::string_view, 4> kEmbeddings = {"wte", "wpe", "shared",
                                                         "relative_attention_bias"};
constexpr std::array<std::string_view, 2> kHeads = {"lm_head", "embed_out"};
constexpr std::array<std::string_view, 4> kRouters = {"gate", "router", "wg", "shared_expert_gate"};

TensorRole RoleOfMatrix(std::string_view module) {
  const std::string_view last = LastComponent(module);
  // Blocks for multi-token prediction have a head of their own.
  if (IsOneOf(last, kHeads) || module.ends_with("shared_head.head")) return TensorRole::kHead;
  if (module == "head" || (module.starts_with("mtp.") && last == "head")) return TensorRole::kHead;
  if (IsOneOf(last, kRouters)) return TensorRole::kRouter;
  if (IsOneOf(last, kEmbeddings) || Contains(last, "embed")) return TensorRole::kEmbedding;
  if (Contains(last, "norm")) return TensorRole::kOther;
  return TensorRole::kLinear;
}

int BlockOf(std::string_view module) {
  constexpr std::string_view kMark = "layers.";
  for (const std::string_view tower : {"vision", "visual", "audio"}) {
    if (Contains(module, tower)) return -1;
  }
  const size_t at = module.find(kMark);
  if (at == std::string_view::npos || (at > 0 && module[at - 1] != '.')) return -1;
  const std::string_view rest = module.substr(at + kMark.size());
  int block = -1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), block);
  const bool whole = end != rest.data() + rest.size() && *end == '.';
  return error == std::errc() && whole && block >= 0 ? block : -1;
}

}  // namespace

TensorPlace PlaceTensor(std::string_view name, const Shape& shape) {
  constexpr std::string_view kWeight = ".weight";
  TensorPlace place;
  const bool is_weight = name.ends_with(kWeight);
  place.module = name.substr(0, name.size() - (is_weight ? kWeight.size() : 0));
  if (shape.size() == 2 && is_weight) {
    place.role = RoleOfMatrix(place.module);
  } else if (shape.size() == 3 && Contains(place.module, ".experts.")) {
    place.role = TensorRole::kExperts;
  }
  place.block = BlockOf(place.module);
  return place;
}

}  // namespace hif8
