#include "lib/model/onnx/conv_window.h"

#include <string>
#include <string_view>

namespace hif8 {

std::optional<ConvWindow> WindowOf(const onnx::NodeProto& node, const Shape& weight) {
  ConvWindow window;
  window.groups = IntAttribute(node, "group", 1);
  window.kernel.assign(weight.begin() + 2, weight.end());
  const size_t rank = window.kernel.size();
  const auto list = [&](std::string_view name, size_t count, int64_t otherwise) {
    Shape values = IntsAttribute(node, name);
    if (values.empty()) values.assign(count, otherwise);
    return values;
  };
  window.strides = list("strides", rank, 1);
  window.dilations = list("dilations", rank, 1);
  window.pads = list("pads", 2 * rank, 0);
  const std::string padding = StringAttribute(node, "auto_pad");
  if (padding == "SAME_UPPER") window.padding = ConvPadding::kSameUpper;
  if (padding == "SAME_LOWER") window.padding = ConvPadding::kSameLower;
  if (padding == "VALID") window.pads.assign(2 * rank, 0);
  const bool fits = window.groups >= 1 && weight[0] % window.groups == 0 &&
                    window.strides.size() == rank && window.dilations.size() == rank &&
                    window.pads.size() == 2 * rank;
  return fits ? std::optional(window) : std::nullopt;
}

}  // namespace hif8
