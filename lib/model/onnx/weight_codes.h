// How a quantized weight stands in a written model. Internal to this folder.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "lib/model/onnx/function_set.h"
#include "lib/model/onnx/graph_edit.h"
#include "lib/model/onnx/tensor_store.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

// Index tensors that say which scale each element of a dimension has. Shared by all that need the
// same ones in one graph.
class ScalePlaces {
 public:
  explicit ScalePlaces(GraphEdit* edit) : edit_(*edit) {}

  // [elements]: element i has the scale i / edge of `scales`; those behind the last one have that.
  std::string Places(int scope, int64_t elements, int64_t edge, int64_t scales);
  // [groups, edge]: the elements of each group; the last one stands in for those that are missing.
  std::string Groups(int scope, int64_t elements, int64_t edge);

 private:
  std::string Add(int scope, const std::string& name, const Shape& shape,
                  const std::vector<int64_t>& values);

  GraphEdit& edit_;
  std::map<std::pair<int, std::string>, std::string> names_;
};

// Codes and scales of weights. FP8 with a scale per tensor or along one dimension is standard
// DequantizeLinear where the operator set has it; everything else is a function.
class WeightCodes {
 public:
  WeightCodes(GraphEdit* edit, TensorStore* store, const FormatRegistry& formats,
              FunctionSet* functions, ScalePlaces* places)
      : edit_(*edit), store_(*store), formats_(formats), functions_(*functions), places_(*places) {}

  // Adds them to graph `scope`, named after the tensor `stored`, with the nodes that make `value`
  // of them.
  void Store(int scope, const std::string& stored, const EncodedWeight& encoded,
             const Weight& weight, const std::string& value);

 private:
  struct Site;
  std::string StoreTensor(const Site& site, const char* suffix, int type, const Shape& shape,
                          std::span<const std::byte> bytes);
  std::string StoreCodes(const Site& site);
  std::string StoreScales(const Site& site);
  onnx::NodeProto Dequantize(const Site& site, const std::string& codes, const std::string& scales,
                             const std::string& output);
  void Append(const Site& site, onnx::NodeProto node);

  GraphEdit& edit_;
  TensorStore& store_;
  const FormatRegistry& formats_;
  FunctionSet& functions_;
  ScalePlaces& places_;
};

// The weight and the format that a node made by WeightCodes dequantizes; empty names when it is
// none.
struct DequantizedWeight {
  std::string weight;
  std::string format;
};
DequantizedWeight FindDequantizedWeight(const onnx::NodeProto& node);

}  // namespace hif8
