// The model-local functions that a written model calls. Internal to this folder.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/onnx/onnx_proto.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

inline constexpr int64_t kFunctionsIr = 8;  // the first IR version with model-local functions

class FunctionSet {
 public:
  using Make = std::function<onnx::FunctionProto(const NumberFormat& format, int64_t opset)>;

  // Returns a call of a function of the format's domain, which `make` makes.
  onnx::NodeProto Call(const std::string& format, std::string_view name, Make make,
                       std::vector<std::string> inputs, const std::string& output);

  bool empty() const { return functions_.empty(); }
  // Adds what was called to the model, unless it has it already.
  void AddTo(onnx::ModelProto* model, const FormatRegistry& formats) const;

 private:
  std::map<std::pair<std::string, std::string>, Make> functions_;  // by format and name
};

}  // namespace hif8
