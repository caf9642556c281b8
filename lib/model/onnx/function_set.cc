#include "lib/model/onnx/function_set.h"

#include <algorithm>

#include "lib/model/onnx/onnx_functions.h"

namespace hif8 {
namespace {

bool HasFunction(const onnx::ModelProto& model, std::string_view domain, std::string_view name) {
  return std::any_of(model.functions().begin(), model.functions().end(), [&](const auto& function) {
    return function.domain() == domain && function.name() == name;
  });
}

}  // namespace

onnx::NodeProto FunctionSet::Call(const std::string& format, std::string_view name, Make make,
                                  std::vector<std::string> inputs, const std::string& output) {
  functions_.emplace(std::pair(format, std::string(name)), std::move(make));
  return MakeNode(std::string(name), std::move(inputs), {output}, FunctionDomain(format));
}

void FunctionSet::AddTo(onnx::ModelProto* model, const FormatRegistry& formats) const {
  for (const auto& [key, make] : functions_) {
    const std::string domain = FunctionDomain(key.first);
    SetOpset(model, domain, kFunctionVersion);
    if (HasFunction(*model, domain, key.second)) continue;  // of an earlier quantization
    *model->add_functions() = make(formats.Get(key.first), StandardOpset(*model));
  }
  model->set_ir_version(std::max<int64_t>(model->ir_version(), kFunctionsIr));
}

}  // namespace hif8
