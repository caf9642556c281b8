// Reading back what was written.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "lib/core/error.h"
#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/model/onnx/scale_shape.h"
#include "lib/model/onnx/tensor_data.h"
#include "lib/model/onnx/weight_codes.h"
#include "lib/numeric/packed_codes.h"

namespace hif8 {
namespace {

constexpr std::string_view kPackedFormat = "mxfp4";

// Stored scales, and along which dimensions several elements share one.
struct StoredScales {
  const onnx::TensorProto* tensor = nullptr;
  std::map<int64_t, int64_t> edges;  // by axis
};

// Back through the nodes that look up every element's scale.
StoredScales FindScales(const OnnxModel::Impl& model, int scope, std::string name) {
  StoredScales found;
  Definition at = model.scopes->Find(scope, name);
  while (at.kind == Definition::Kind::kNode) {
    const onnx::NodeProto& node = model.scopes->Node(at);
    const onnx::TensorProto* places = model.scopes->FindConstant(at.scope, InputName(node, 1));
    if (!IsStandardOp(node, "Gather") || places == nullptr) return {};
    const auto indices = ReadInts(*places, model.files);
    if (!indices) return {};
    found.edges[IntAttribute(node, "axis", 0)] =
        std::count(indices->begin(), indices->end(), int64_t{0});
    name = InputName(node, 0);
    at = model.scopes->Find(at.scope, name);
  }
  found.tensor = model.scopes->FindConstant(scope, name);
  return found;
}

// How many of the columns count that `bytes` of packed codes a row make: all, or what a Gather
// behind the node leaves of them.
int64_t UnpackedColumns(const OnnxModel::Impl& model, int scope, const onnx::NodeProto& node,
                        int64_t bytes) {
  for (const onnx::NodeProto& reader : (*model.scopes)[scope].graph->node()) {
    if (!IsStandardOp(reader, "Gather") || InputName(reader, 0) != node.output(0)) continue;
    const onnx::TensorProto* places = model.scopes->FindConstant(scope, InputName(reader, 1));
    if (places != nullptr) return std::min(2 * bytes, TensorShape(*places).at(0));
  }
  return 2 * bytes;
}

}  // namespace

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
      const DequantizedWeight found = FindDequantizedWeight(node);
      if (!found.format.empty()) impl->codes[found.weight] = {scope, i};
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
  const StoredScales scales = FindScales(model, scope, InputName(node, 1));
  EncodedWeight encoded;
  encoded.format = FindDequantizedWeight(node).format;
  const bool packed = encoded.format == kPackedFormat;
  Shape shape = codes == nullptr ? Shape{} : TensorShape(*codes);
  if (packed && !shape.empty()) shape.back() = UnpackedColumns(model, scope, node, shape.back());
  const std::optional<int64_t> axis =
      IsStandardDomain(node.domain()) ? std::optional(IntAttribute(node, "axis", 1)) : std::nullopt;
  if (codes == nullptr || scales.tensor == nullptr ||
      !LayoutFor(shape, TensorShape(*scales.tensor), axis, scales.edges, &encoded.layout)) {
    throw ModelError("codes and scales of weight '" + weight + "' do not fit together", {}, where);
  }
  const Tensor code_values = ReadTensor(*codes, model.files);
  const Tensor scale_values = ReadTensor(*scales.tensor, model.files);
  const auto* bytes = reinterpret_cast<const uint8_t*>(code_values.view.data);
  encoded.codes.resize(encoded.layout.size());
  if (packed) {
    UnpackCodes({bytes, code_values.view.bytes()}, static_cast<size_t>(shape.back()),
                encoded.codes);
  } else {
    std::memcpy(encoded.codes.data(), bytes, encoded.codes.size());
  }
  encoded.scales.resize(scale_values.view.size());
  if (scale_values.view.dtype == DType::kU8) {
    for (size_t i = 0; i < encoded.scales.size(); ++i) {
      encoded.scales[i] = E8M0Value(static_cast<uint8_t>(scale_values.view.data[i]));
    }
  } else {
    std::memcpy(encoded.scales.data(), scale_values.view.data, scale_values.view.bytes());
  }
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
