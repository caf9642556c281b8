// Tensors whose bytes lie in a file of their own. Internal to this folder.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "lib/core/mapped_file.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

inline bool IsExternal(const onnx::TensorProto& tensor) {
  return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

// Holds what a tensor says about where its bytes are.
struct ExternalReference {
  std::string location;
  uint64_t offset = 0;
  bool has_length = false;
  uint64_t length = 0;
};
// Throws kModel naming the tensor when an entry is missing or no number.
ExternalReference ParseExternalReference(const onnx::TensorProto& tensor);
void SetExternalReference(onnx::TensorProto* tensor, const std::string& location, uint64_t offset,
                          uint64_t length);

// The external data files of one model, mapped when first needed.
class DataFiles {
 public:
  explicit DataFiles(const std::filesystem::path& model);

  // A part of a data file. Refuses locations that are absolute or lead out of the model's own
  // folder: the one that holds the path as given, or the one that holds the file which that path
  // stands for when it is a symbolic link, or the blobs of the hub's cache that the model is in.
  // Throws kModel naming the tensor.
  struct Part {
    std::shared_ptr<const MappedFile> file;
    std::span<const std::byte> bytes;
  };
  Part Find(const onnx::TensorProto& tensor, uint64_t bytes) const;

  // Returns the file's real path, after the checks of Find().
  std::filesystem::path Resolve(const std::string& location, const std::string& tensor) const;

 private:
  std::filesystem::path given_dir_;
  std::filesystem::path real_dir_;
  std::filesystem::path blobs_;  // of the hub's cache that holds the model; or empty
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> open_;
};

}  // namespace hif8
