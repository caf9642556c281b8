// Reading back what was written.
#include <cstring>
#include <map>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/model/onnx/stored_codes.h"

namespace hif8 {

struct OnnxArtifact::Impl {
  Impl(std::unique_ptr<OnnxModel> m, const FormatRegistry& f) : model(std::move(m)), formats(f) {}

  std::unique_ptr<OnnxModel> model;
  const FormatRegistry& formats;
  std::map<std::string, StoredCodes> codes;  // by weight

  const OnnxModel::Impl& inside() const { return model->impl(); }
};

std::unique_ptr<OnnxArtifact> OnnxArtifact::Open(const std::filesystem::path& folder,
                                                 const FormatRegistry& formats) {
  auto impl = std::make_unique<Impl>(OnnxModel::Load(folder / "model.onnx", NullLog()), formats);
  const Scopes& scopes = *impl->inside().scopes;
  const Uses uses(scopes);
  for (int scope = 0; scope < static_cast<int>(scopes.size()); ++scope) {
    for (int i = 0; i < scopes[scope].graph->node_size(); ++i) {
      for (StoredCodes& found :
           FindStoredCodes(impl->inside(), uses, scope, scopes[scope].graph->node(i), formats)) {
        const std::string weight = found.names.front();
        impl->codes.insert_or_assign(weight, std::move(found));
      }
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
    throw ModelError("the model holds no codes of weight '" + weight + "'",
                     "run hif8-calibrate again", where);
  }
  const StoredCodes& stored = it->second;
  if (!stored.problem.empty()) {
    throw ModelError("weight '" + weight + "': " + stored.problem, "run hif8-calibrate again",
                     where);
  }
  const DataFiles& files = impl_->inside().files;
  const Tensor codes = hif8::ReadCodes(stored, impl_->formats, files);
  EncodedWeight encoded;
  encoded.format = stored.format;
  encoded.layout = stored.layout;
  encoded.codes.resize(encoded.layout.size());
  std::memcpy(encoded.codes.data(), codes.view.data, encoded.codes.size());
  encoded.scales = ReadScales(stored, impl_->formats, files);
  return encoded;
}

Tensor OnnxArtifact::ReadValues(const std::string& weight) const {
  const OnnxModel& model = *impl_->model;
  for (const std::string& name : {weight + "_dequantized", weight}) {
    for (size_t i = 0; i < model.weights().size(); ++i) {
      if (model.weights()[i].name == name) return model.ReadWeight(static_cast<int>(i));
    }
  }
  throw ModelError("the model has no weight '" + weight + "'",
                   "compare it with the model that it was made from", model.path().string());
}

}  // namespace hif8
