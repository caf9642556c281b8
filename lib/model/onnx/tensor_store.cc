#include "lib/model/onnx/tensor_store.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <exception>
#include <limits>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"

namespace hif8 {
namespace {

constexpr const char* kModelName = "model.onnx";
constexpr const char* kDataName = "model.onnx.data";
// What Put() writes until PutAll() has told its references from those of the source model, which
// may have a data file of the same name. No file is named like this.
constexpr const char* kOwnData = "\nown";
// Tensors that runtimes look into while they load (shapes, axes) are smaller and stay inside.
constexpr uint64_t kExternalFrom = 1024;
constexpr uint64_t kAlignment = 64;

// Passes a message on to a file as it is serialized.
class FileStream : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FileStream(OutputFile* file) : file_(*file) {}
  bool Write(const void* data, int size) override {
    try {
      file_.Write({static_cast<const std::byte*>(data), static_cast<size_t>(size)});
      return true;
    } catch (...) {  // an exception must not pass through protobuf
      error_ = std::current_exception();
      return false;
    }
  }
  void Rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  OutputFile& file_;
  std::exception_ptr error_;
};

}  // namespace

uint64_t TensorBytes(const onnx::TensorProto& tensor) {
  DType dtype;
  if (ToDType(tensor.data_type(), &dtype)) {
    return ElementCount(TensorShape(tensor)) * DTypeSize(dtype);
  }
  return IsExternal(tensor) ? ParseExternalReference(tensor).length : tensor.ByteSizeLong();
}

TensorStore::TensorStore(const std::filesystem::path& folder, bool external)
    : model_path_(folder / kModelName) {
  if (external) data_ = std::make_unique<OutputFile>(folder / kDataName);
}

std::filesystem::path TensorStore::data_path() const {
  return data_ ? data_->path() : std::filesystem::path();
}

void TensorStore::Put(std::span<const std::byte> bytes, onnx::TensorProto* tensor) {
  CheckInterrupt();
  if (!data_ || bytes.size() < kExternalFrom) {
    tensor->clear_external_data();
    tensor->clear_data_location();
    tensor->set_raw_data(bytes.data(), bytes.size());
    return;
  }
  static constexpr std::byte kZeros[kAlignment] = {};
  data_->Write({kZeros, (kAlignment - data_->size() % kAlignment) % kAlignment});
  SetExternalReference(tensor, kOwnData, data_->size(), bytes.size());
  data_->Write(bytes);
  tensor->clear_raw_data();
}

void TensorStore::PutCopy(const DataFiles& source, onnx::TensorProto* tensor) {
  if (!IsExternal(*tensor)) {
    if (data_ && tensor->raw_data().size() >= kExternalFrom) {
      const std::string bytes = std::move(*tensor->mutable_raw_data());
      Put(std::as_bytes(std::span(bytes)), tensor);
    }
    if (!IsExternal(*tensor)) return;
  }
  const ExternalReference reference = ParseExternalReference(*tensor);
  if (reference.location != kOwnData) {
    // The part keeps the source file mapped while its bytes are copied.
    const DataFiles::Part part = source.Find(*tensor, TensorBytes(*tensor));
    Put(part.bytes, tensor);
    if (!IsExternal(*tensor)) return;
  }
  const ExternalReference own = ParseExternalReference(*tensor);
  SetExternalReference(tensor, kDataName, own.offset, own.length);
}

void TensorStore::PutAll(const DataFiles& source, onnx::GraphProto* graph) {
  for (onnx::TensorProto& tensor : *graph->mutable_initializer()) PutCopy(source, &tensor);
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t() && IsExternal(attribute.t())) {
        PutCopy(source, attribute.mutable_t());
      }
      if (attribute.has_g()) PutAll(source, attribute.mutable_g());
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) PutAll(source, &body);
    }
  }
}

void TensorStore::Finish(const onnx::ModelProto& model) {
  if (model.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw ModelError("the model without its large tensors is larger than 2 GB",
                     "export the model in smaller pieces", model_path_.string());
  }
  OutputFile file(model_path_);
  FileStream stream(&file);
  google::protobuf::io::CopyingOutputStreamAdaptor adaptor(&stream, 1 << 20);
  const bool done = model.SerializeToZeroCopyStream(&adaptor) && adaptor.Flush();
  stream.Rethrow();
  if (!done)
    throw ModelError("the model cannot be serialized", "check it with onnx.checker.check_model",
                     model_path_.string());
  bytes_ = file.size();
  file.Close();
  if (!data_) return;
  bytes_ += data_->size();
  data_->Close();
}

}  // namespace hif8
