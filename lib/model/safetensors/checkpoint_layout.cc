#include "lib/model/safetensors/checkpoint_layout.h"

#include "lib/core/error.h"
#include "lib/model/safetensors/quantization_config.h"

namespace hif8 {
namespace {

// Names as in compressed-tensors, with codes that readers without HiF8 refuse.
class CompressedTensors : public CheckpointLayout {
 public:
  std::string_view description() const override {
    return "vLLM, SGLang, TensorRT-LLM and hif8_load.py; HiF8 says what it is (default)";
  }

  std::vector<OutputTensor> Tensors(const QuantizedLayer& layer) const override {
    const std::string& name = layer.weight().name();
    const bool packed = layer.scheme.weight_format->packed();
    std::vector<OutputTensor> tensors = {CodesTensor(layer, packed ? PackedName(name) : name),
                                         ScalesTensor(layer, WeightScaleName(name))};
    if (layer.scheme.weight_format->HasGlobalScale()) {
      tensors.push_back(MadeTensor(layer, GlobalScaleName(name), DType::kF32, {1},
                                   [](const EncodedWeight& encoded) {
                                     return NumberBytes({&encoded.global_scale, 1}, DType::kF32);
                                   }));
    }
    if (layer.input_scale && layer.scheme.input_format->HasGlobalScale()) {
      tensors.push_back(
          ValueTensor(InputGlobalScaleName(name), DType::kF32, {1}, {1 / *layer.input_scale}));
    } else if (layer.input_scale) {
      tensors.push_back(ValueTensor(InputScaleName(name), DType::kF32, {1}, {*layer.input_scale}));
    }
    return tensors;
  }

  std::vector<TextFile> Files(const Checkpoint& source, const CheckpointPlan& plan,
                              const std::vector<OutputShard>& /*shards*/) const override {
    return {{"config.json", QuantizedConfigText(source, plan.layers, plan.cache_format)}};
  }
};

}  // namespace

const CheckpointLayout& CompressedTensorsLayout() {
  static const CompressedTensors layout;
  return layout;
}

const CheckpointLayout& LayoutOf(LayoutKind kind) {
  switch (kind) {
    case LayoutKind::kCompressedTensors:
      return CompressedTensorsLayout();
    case LayoutKind::kCann:
      return CannLayout();
    case LayoutKind::kAscendV1:
      return AscendV1Layout();
  }
  throw BugError("no such layout");
}

}  // namespace hif8
