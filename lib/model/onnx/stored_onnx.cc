#include "lib/model/onnx/stored_onnx.h"

#include <map>
#include <set>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/tensor_data.h"

namespace hif8 {
namespace {

class StoredOnnx : public StoredModel {
 public:
  explicit StoredOnnx(const std::filesystem::path& path)
      : model_(OnnxModel::Load(path, NullLog())) {
    FindActivationScales();
    AddCodes();
    AddValues();
    CountBytes();
  }

  std::string_view kind() const override { return "onnx"; }
  const std::filesystem::path& path() const override { return model_->path(); }
  uint64_t file_bytes() const override { return file_bytes_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }

  Tensor Read(size_t index) const override {
    return ReadTensor(*sources_[index].values, model_->impl().files);
  }

  std::vector<float> ReadScales(size_t index) const override {
    if (sources_[index].scales == nullptr) return {};
    const Tensor scales = ReadTensor(*sources_[index].scales, model_->impl().files);
    std::vector<float> values(scales.view.size());
    ConvertToFloat(scales.view.dtype, scales.view.data, values.size(), values.data());
    return values;
  }

 private:
  struct Source {
    const onnx::TensorProto* values;
    const onnx::TensorProto* scales;  // null: no codes
  };

  const Scopes& scopes() const { return *model_->impl().scopes; }

  void Add(StoredTensor tensor, const Source& source) {
    tensor.shape = TensorShape(*source.values);
    if (!ToDType(source.values->data_type(), &tensor.dtype)) {
      tensor.unknown = "elements of type " + OnnxTypeName(source.values->data_type());
    } else if (source.scales == nullptr && !IsFloat(tensor.dtype)) {
      tensor.unknown = std::string(DTypeName(tensor.dtype)) + " is no floating-point type";
    } else {
      tensor.bytes = tensor.size() * DTypeSize(tensor.dtype);
    }
    tensors_.push_back(std::move(tensor));
    sources_.push_back(source);
  }

  // Scales of activations are no tensors of the network.
  void FindActivationScales() {
    for (int scope = 0; scope < static_cast<int>(scopes().size()); ++scope) {
      for (const onnx::NodeProto& node : scopes()[scope].graph->node()) {
        if (node.op_type() != kQuantizeDequantizeFunction) continue;
        if (FormatOfDomain(node.domain()).empty()) continue;
        parts_.insert(scopes().FindConstant(scope, InputName(node, 1)));
      }
    }
  }

  // Every call of a dequantizing function.
  void AddCodes() {
    for (int scope = 0; scope < static_cast<int>(scopes().size()); ++scope) {
      for (const onnx::NodeProto& node : scopes()[scope].graph->node()) {
        if (node.op_type() != kDequantizeFunction) continue;
        const std::string format(FormatOfDomain(node.domain()));
        const onnx::TensorProto* codes = scopes().FindConstant(scope, InputName(node, 0));
        const onnx::TensorProto* scales = scopes().FindConstant(scope, InputName(node, 1));
        if (format.empty() || codes == nullptr || scales == nullptr) continue;
        AddCodes(node, format, {codes, scales});
      }
    }
  }

  void AddCodes(const onnx::NodeProto& node, const std::string& format, const Source& source) {
    StoredTensor tensor;
    tensor.name = node.doc_string().empty() ? node.output(0) : node.doc_string();
    tensor.format = format;
    const Shape scales = TensorShape(*source.scales);
    DType dtype = DType::kF32;
    if (source.values->data_type() != onnx::TensorProto::UINT8 ||
        !ToDType(source.scales->data_type(), &dtype) || !IsFloat(dtype) ||
        !FindTiles(TensorShape(*source.values), scales, {}, &tensor.tiles)) {
      throw ModelError("codes and scales of weight '" + tensor.name + "' do not fit together", "",
                       path().string());
    }
    parts_.insert({source.values, source.scales});
    Add(std::move(tensor), source);
    tensors_.back().bytes += ElementCount(scales) * DTypeSize(dtype);
  }

  // Every other initializer, under the name that layers know it by.
  void AddValues() {
    std::map<const onnx::TensorProto*, int> weights;
    const OnnxModel::Impl& impl = model_->impl();
    for (size_t i = 0; i < impl.weight_sites.size(); ++i) {
      weights[&impl.tensor(impl.weight_sites[i])] = static_cast<int>(i);
    }
    for (int scope = 0; scope < static_cast<int>(scopes().size()); ++scope) {
      for (const onnx::TensorProto& values : scopes()[scope].graph->initializer()) {
        if (parts_.contains(&values)) continue;
        StoredTensor tensor;
        const std::string& path = scopes()[scope].path;
        tensor.name = path.empty() ? values.name() : path + "/" + values.name();
        const auto weight = weights.find(&values);
        if (weight != weights.end()) {
          tensor.name = impl.weights[static_cast<size_t>(weight->second)].name;
          for (const Layer& layer : impl.layers) {
            if (layer.weight == weight->second) tensor.layers.push_back({layer.name, layer.op});
          }
        }
        Add(std::move(tensor), {&values, nullptr});
      }
    }
  }

  void CountBytes() {
    std::set<std::filesystem::path> files = {std::filesystem::canonical(path())};
    for (const Source& source : sources_) {
      for (const onnx::TensorProto* tensor : {source.values, source.scales}) {
        if (tensor == nullptr || !IsExternal(*tensor)) continue;
        const std::string location = ParseExternalReference(*tensor).location;
        files.insert(model_->impl().files.Resolve(location, tensor->name()));
      }
    }
    for (const std::filesystem::path& file : files) file_bytes_ += std::filesystem::file_size(file);
  }

  std::unique_ptr<OnnxModel> model_;
  uint64_t file_bytes_ = 0;
  std::vector<StoredTensor> tensors_;
  std::vector<Source> sources_;
  std::set<const onnx::TensorProto*> parts_;  // of quantized operands: codes and scales
};

}  // namespace

std::unique_ptr<StoredModel> OpenStoredOnnx(const std::filesystem::path& path) {
  return std::make_unique<StoredOnnx>(path);
}

}  // namespace hif8
