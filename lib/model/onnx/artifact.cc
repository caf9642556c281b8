// Reading back what was written.
#include <cstring>
#include <map>

#include "lib/core/error.h"
#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/model/onnx/scale_shape.h"
#include "lib/model/onnx/tensor_data.h"

namespace hif8 {

struct OnnxArtifact::Impl {
  std::unique_ptr<OnnxModel> model;
  std::map<std::string, std::pair<int, int>> codes;  // weight -> scope and node

  const OnnxModel::Impl& inside() const { return model->impl(); }
};

std::unique_ptr<OnnxArtifact> OnnxArtifact::Open(const std::filesystem::path& folder) {
  auto impl = std::make_unique<Impl>();
  impl->model = OnnxModel::Load(folder / "model.onnx", NullLog());
  const Scopes& scopes = *impl->inside().scopes;
  for (int scope = 0; scope < static_cast<int>(scopes.size()); ++scope) {
    for (int i = 0; i < scopes[scope].graph->node_size(); ++i) {
      const onnx::NodeProto& node = scopes[scope].graph->node(i);
      if (node.op_type() != kDequantizeFunction || FormatOfDomain(node.domain()).empty()) continue;
      impl->codes[node.doc_string()] = {scope, i};
    }
  }
  return std::unique_ptr<OnnxArtifact>(new OnnxArtifact(std::move(impl)));
}

OnnxArtifact::OnnxArtifact(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OnnxArtifact::~OnnxArtifact() = default;

bool OnnxArtifact::HasCodes(const std::string& weight) const {
  return impl_->codes.contains(weight);
}

EncodedWeight OnnxArtifact::ReadCodes(const std::string& weight) const {
  const auto it = impl_->codes.find(weight);
  const std::string where = impl_->model->path().string();
  if (it == impl_->codes.end()) {
    throw ModelError("the model holds no codes of weight '" + weight + "'", {}, where);
  }
  const OnnxModel::Impl& model = impl_->inside();
  const auto [scope, index] = it->second;
  const onnx::NodeProto& node = (*model.scopes)[scope].graph->node(index);
  const onnx::TensorProto* codes = model.scopes->FindConstant(scope, InputName(node, 0));
  const onnx::TensorProto* scales = model.scopes->FindConstant(scope, InputName(node, 1));
  EncodedWeight encoded;
  encoded.format = FormatOfDomain(node.domain());
  if (codes == nullptr || scales == nullptr || codes->data_type() != onnx::TensorProto::UINT8 ||
      scales->data_type() != onnx::TensorProto::FLOAT ||
      !LayoutFor(TensorShape(*codes), TensorShape(*scales), &encoded.layout)) {
    throw ModelError("codes and scales of weight '" + weight + "' do not fit together", {}, where);
  }
  const Tensor code_values = ReadTensor(*codes, model.files);
  const Tensor scale_values = ReadTensor(*scales, model.files);
  encoded.codes.resize(code_values.view.size());
  std::memcpy(encoded.codes.data(), code_values.view.data, encoded.codes.size());
  encoded.scales.resize(scale_values.view.size());
  std::memcpy(encoded.scales.data(), scale_values.view.data, scale_values.view.bytes());
  return encoded;
}

Tensor OnnxArtifact::ReadValues(const std::string& weight) const {
  const OnnxModel& model = *impl_->model;
  for (const std::string& name : {weight + "_dequantized", weight}) {
    for (size_t i = 0; i < model.weights().size(); ++i) {
      if (model.weights()[i].name == name) return model.ReadWeight(static_cast<int>(i));
    }
  }
  throw ModelError("the model has no weight '" + weight + "'", {}, model.path().string());
}

}  // namespace hif8
