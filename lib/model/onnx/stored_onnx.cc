#include "lib/model/onnx/stored_onnx.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/quantized_operands.h"
#include "lib/model/onnx/stored_codes.h"
#include "lib/model/onnx/tensor_data.h"

namespace hif8 {
namespace {

constexpr std::string_view kDecodedSuffix = "_dequantized";

class StoredOnnx : public StoredModel {
 public:
  StoredOnnx(const std::filesystem::path& path, const FormatRegistry& formats,
             const OnnxLoadOptions& options)
      : model_(OnnxModel::Load(path, NullLog(), options)), formats_(formats) {
    const Uses uses(scopes());
    for (int scope = 0; scope < static_cast<int>(scopes().size()); ++scope) {
      for (const onnx::NodeProto& node : scopes()[scope].graph->node()) {
        FindParts(scope, node);
        for (StoredCodes& codes : FindStoredCodes(model_->impl(), uses, scope, node, formats)) {
          AddCodes(std::move(codes));
        }
      }
    }
    AddValues();
    CountBytes();
  }

  std::string_view kind() const override { return "onnx"; }
  const std::filesystem::path& path() const override { return model_->path(); }
  uint64_t file_bytes() const override { return file_bytes_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }

  Tensor Read(size_t index) const override {
    const Source& source = sources_[index];
    if (!source.codes) return ReadTensor(*source.values, files());
    if (source.codes->format.empty()) return ReadIntegers(*source.codes, formats_, files());
    return ReadCodes(*source.codes, formats_, files());
  }

  std::vector<float> ReadScales(size_t index) const override {
    const std::optional<StoredCodes>& codes = sources_[index].codes;
    return codes && !codes->format.empty() ? hif8::ReadScales(*codes, formats_, files())
                                           : std::vector<float>();
  }

  std::vector<float> ReadZeroPoints(size_t index) const override {
    const std::optional<StoredCodes>& codes = sources_[index].codes;
    return codes ? hif8::ReadZeroPoints(*codes, formats_, files()) : std::vector<float>();
  }

 private:
  struct Source {
    const onnx::TensorProto* values = nullptr;
    std::optional<StoredCodes> codes = {};  // of `values`
  };

  const Scopes& scopes() const { return *model_->impl().scopes; }
  const DataFiles& files() const { return model_->impl().files; }

  // What a node needs besides its tensor is no tensor of the network: scales of activations, zero
  // points, targets, limits.
  void FindParts(int scope, const onnx::NodeProto& node) {
    const bool part_of_rounding = IsLinear(node, "QuantizeLinear") ||
                                  IsLinear(node, "DequantizeLinear") || IsLinearOperator(node) ||
                                  formats_.Find(FormatOfDomain(node.domain())) != nullptr ||
                                  ParseOperatorMark(node.doc_string()).text == kLimitMark;
    if (!part_of_rounding) return;
    for (int i = IsLinearOperator(node) ? 0 : 1; i < node.input_size(); ++i) {
      parts_.insert(scopes().FindConstant(scope, InputName(node, i)));
    }
  }

  void AddCodes(StoredCodes codes) {
    if (!known_.insert({codes.codes, codes.scales}).second) return;  // decoded once more
    StoredTensor tensor;
    tensor.name = codes.names.front();
    tensor.also.assign(codes.names.begin() + 1, codes.names.end());
    tensor.format = codes.format;
    tensor.tiles = codes.layout;
    tensor.shape = codes.layout.shape;
    tensor.unknown = codes.problem;
    if (tensor.unknown.empty() && !codes.format.empty() && formats_.Find(codes.format) == nullptr) {
      tensor.unknown = "the number format '" + codes.format + "' is not known";
    }
    if (!tensor.unknown.empty()) tensor.format.clear();
    tensor.dtype = codes.type != nullptr ? codes.type->dtype() : DType::kU8;
    for (const onnx::TensorProto* part : {codes.codes, codes.scales, codes.zero_points}) {
      if (part == nullptr) continue;
      const bool also_plain =
          part == codes.codes && codes.rounding && codes.rounding->read_otherwise;
      if (!also_plain) parts_.insert(part);
      tensor.bytes += StoredBytes(*part);
    }
    if (codes.factor != nullptr) parts_.insert(codes.factor);
    tensors_.push_back(std::move(tensor));
    const onnx::TensorProto* values = codes.codes;
    sources_.push_back({values, std::move(codes)});
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
          for (size_t i = 0; i < impl.layers.size(); ++i) {
            const Layer& layer = impl.layers[i];
            if (layer.weight != weight->second) continue;
            tensor.layers.push_back({layer.name, layer.op, static_cast<int>(i)});
          }
        }
        AddPlain(values, std::move(tensor));
      }
    }
  }

  void AddPlain(const onnx::TensorProto& values, StoredTensor tensor) {
    if (tensor.name.ends_with(kDecodedSuffix)) {
      tensor.also = {tensor.name.substr(0, tensor.name.size() - kDecodedSuffix.size())};
    }
    tensor.shape = TensorShape(values);
    if (!ToDType(values.data_type(), &tensor.dtype)) {
      tensor.unknown = "elements of type " + OnnxTypeName(values.data_type());
    } else if (!IsFloat(tensor.dtype)) {
      tensor.unknown = std::string(DTypeName(tensor.dtype)) + " is no floating-point type";
    } else {
      tensor.bytes = tensor.size() * DTypeSize(tensor.dtype);
    }
    // Shapes, axes, positions.
    tensor.parameter = tensor.HasValues();
    tensors_.push_back(std::move(tensor));
    sources_.push_back({&values});
  }

  void CountBytes() {
    std::set<std::filesystem::path> files = {std::filesystem::canonical(model_->path())};
    std::set<const onnx::TensorProto*> tensors = parts_;
    for (const Source& source : sources_) tensors.insert(source.values);
    for (const onnx::TensorProto* tensor : tensors) {
      if (tensor == nullptr || !IsExternal(*tensor)) continue;
      const std::string location = ParseExternalReference(*tensor).location;
      files.insert(model_->impl().files.Resolve(location, tensor->name()));
    }
    for (const std::filesystem::path& file : files) file_bytes_ += std::filesystem::file_size(file);
  }

  std::unique_ptr<OnnxModel> model_;
  const FormatRegistry& formats_;
  uint64_t file_bytes_ = 0;
  std::vector<StoredTensor> tensors_;
  std::vector<Source> sources_;
  // Parts of quantized operands: codes, scales, zero points.
  std::set<const onnx::TensorProto*> parts_;
  std::set<std::pair<const onnx::TensorProto*, const onnx::TensorProto*>> known_;
};

}  // namespace

std::unique_ptr<StoredModel> OpenStoredOnnx(const std::filesystem::path& path,
                                            const FormatRegistry& formats,
                                            const ConstantEvaluator& evaluate) {
  OnnxLoadOptions options;
  options.evaluate = evaluate;
  return std::make_unique<StoredOnnx>(path, formats, options);
}

}  // namespace hif8
