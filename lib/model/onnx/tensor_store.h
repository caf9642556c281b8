// Where the tensors of a model that is being written go. Internal to this folder.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "lib/core/output_file.h"
#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

class TensorStore {
 public:
  // `external`: large tensors go to folder/model.onnx.data as they come.
  TensorStore(const std::filesystem::path& folder, bool external);

  // Gives the tensor these bytes as its data, in row-major little-endian order.
  void Put(std::span<const std::byte> bytes, onnx::TensorProto* tensor);
  // Every tensor of the graph that refers to files of the model that it was read from, or that is
  // large. To be called once, after the last Put().
  void PutAll(const DataFiles& source, onnx::GraphProto* graph);

  // Writes folder/model.onnx and closes all files.
  void Finish(const onnx::ModelProto& model);

  const std::filesystem::path& model_path() const { return model_path_; }
  std::filesystem::path data_path() const;  // empty when there is none
  uint64_t bytes() const { return bytes_; }

 private:
  void PutCopy(const DataFiles& source, onnx::TensorProto* tensor);

  std::filesystem::path model_path_;
  std::unique_ptr<OutputFile> data_;
  uint64_t bytes_ = 0;
};

// Returns the bytes of the tensor's values.
uint64_t TensorBytes(const onnx::TensorProto& tensor);

}  // namespace hif8
