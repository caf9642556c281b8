// What each layout of a quantized checkpoint writes, over the one description of a quantized layer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/checkpoint_writer.h"
#include "lib/model/safetensors/layout.h"
#include "lib/model/safetensors/output_layout.h"

namespace hif8 {

// A quantized layer of a checkpoint.
struct QuantizedLayer {
  const Checkpoint& source;
  const Layer& layer;
  const LayerScheme& scheme;
  bool uniform = true;                    // all quantized layers have this scheme
  std::optional<float> input_scale = {};  // static

  const CheckpointTensor& weight() const { return source.tensor_of_weight(layer.weight); }
  // Returns X.bias beside X.weight; null where there is none.
  const CheckpointTensor* bias() const { return source.Find(layer.name + ".bias"); }
};

// Why a layout cannot hold something, the recipe key that asks for it, and what would do.
struct LayoutProblem {
  std::string what;
  std::string key;
  std::string instead;
};

// A file of text beside the shards: name and content.
using TextFile = std::pair<std::string, std::string>;

class CheckpointLayout {
 public:
  virtual ~CheckpointLayout() = default;
  virtual std::string_view description() const = 0;  // one line for --list layouts
  // Nothing when the layout holds the layer.
  virtual std::optional<LayoutProblem> Problem(const QuantizedLayer& /*layer*/) const { return {}; }
  // Returns the same of a cache in that number format, with a scale that data gave (`scaled`) or 1.
  virtual std::optional<LayoutProblem> CacheProblem(const Layer& /*cache*/,
                                                    std::string_view /*format*/,
                                                    bool /*scaled*/) const {
    return {};
  }
  // True where a weight's scales must be exact in BF16, since loaders keep them in that type.
  virtual bool NeedsBf16Scales(std::string_view /*format*/) const { return false; }
  // True where Tensors() holds the layer's bias in another form.
  virtual bool HoldsBias(const LayerScheme& /*scheme*/) const { return false; }
  // The tensors in the place of a layer's weight: its codes, then what is made of them and scales.
  virtual std::vector<OutputTensor> Tensors(const QuantizedLayer& layer) const = 0;
  // The name of a cache's scale; empty where none is written.
  virtual std::string CacheScaleName(const std::string& cache) const { return cache + "_scale"; }
  // config.json and what else is to be said of all tensors.
  virtual std::vector<TextFile> Files(const Checkpoint& source, const CheckpointPlan& plan,
                                      const std::vector<OutputShard>& shards) const = 0;
};

const CheckpointLayout& LayoutOf(LayoutKind kind);

// The three of them; each in a file of its own.
const CheckpointLayout& CompressedTensorsLayout();
const CheckpointLayout& CannLayout();
const CheckpointLayout& AscendV1Layout();

}  // namespace hif8
