// ONNX test data: one serialized tensor a file, input_0.pb, input_1.pb, ...
#include <algorithm>

#include "lib/core/error.h"
#include "lib/model/onnx/tensor_proto.h"
#include "lib/runtime/data_file.h"

namespace hif8 {

std::unique_ptr<DataFile> OpenTestData(const std::vector<std::filesystem::path>& paths,
                                       std::span<const GraphValue> inputs) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(paths.size());
  for (const std::filesystem::path& path : paths) tensors.push_back(ReadTensorFile(path));
  const bool named = std::all_of(inputs.begin(), inputs.end(), [&](const GraphValue& input) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const NamedTensor& tensor) { return tensor.name == input.name; });
  });
  if (!named && tensors.size() != inputs.size()) {
    throw ModelError("the model has " + std::to_string(inputs.size()) + " inputs, found " +
                         std::to_string(tensors.size()) + " files",
                     "expected input_0.pb, input_1.pb, ... for all of them", paths[0].string());
  }
  auto file = std::make_unique<TensorsFile>();
  for (size_t i = 0; i < tensors.size(); ++i) {
    file->Add(named ? tensors[i].name : inputs[i].name, std::move(tensors[i].tensor));
  }
  return file;
}

}  // namespace hif8
