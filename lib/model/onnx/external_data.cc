#include "lib/model/onnx/external_data.h"

#include <charconv>
#include <system_error>

#include "lib/core/error.h"
#include "lib/core/file_list.h"
#include "lib/core/input_file.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

uint64_t ParseNumber(const std::string& key, const std::string& text, const std::string& tensor) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw ModelError("external data " + key + " of the tensor is '" + text + "', not a number",
                     "the file is damaged; export the model again", tensor);
  }
  return value;
}

}  // namespace

ExternalReference ParseExternalReference(const onnx::TensorProto& tensor) {
  ExternalReference reference;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") {
      reference.location = entry.value();
    } else if (entry.key() == "offset") {
      reference.offset = ParseNumber("offset", entry.value(), tensor.name());
    } else if (entry.key() == "length") {
      reference.length = ParseNumber("length", entry.value(), tensor.name());
      reference.has_length = true;
    }
  }
  if (reference.location.empty()) {
    throw ModelError("the tensor's data is external but its location is missing",
                     "the file is damaged; export the model again", tensor.name());
  }
  return reference;
}

void SetExternalReference(onnx::TensorProto* tensor, const std::string& location, uint64_t offset,
                          uint64_t length) {
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  tensor->clear_external_data();
  const auto add = [&](const char* key, const std::string& value) {
    onnx::StringStringEntryProto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
}

DataFiles::DataFiles(const fs::path& model) {
  std::error_code ignored;
  given_dir_ = fs::weakly_canonical(fs::absolute(model).parent_path(), ignored);
  real_dir_ = fs::weakly_canonical(model, ignored).parent_path();
  for (fs::path dir = given_dir_; blobs_.empty() && dir.has_relative_path();
       dir = dir.parent_path()) {
    blobs_ = BlobStoreOf(dir);
  }
}

fs::path DataFiles::Resolve(const std::string& location, const std::string& tensor) const {
  const fs::path relative(location);
  const fs::path normal = relative.lexically_normal();
  const std::string hint = "external data must lie in the model's own folder";
  if (relative.is_absolute() || normal.empty() || *normal.begin() == ".." ||
      location.find('\0') != std::string::npos) {
    throw ModelError("external data location '" + location + "' leads out of the model's folder",
                     hint, tensor);
  }
  for (const fs::path& folder : {given_dir_, real_dir_}) {
    std::error_code error;
    const fs::path file = fs::canonical(folder / normal, error);
    if (error) continue;
    // A link beside the model may point to where the model's own link points, as in a cache of
    // downloads.
    const bool stored = !blobs_.empty() && IsInside(file, blobs_);
    if (!IsInside(file, given_dir_) && !IsInside(file, real_dir_) && !stored) {
      throw ModelError("external data '" + location + "' is a link out of the model's folder", hint,
                       tensor);
    }
    return file;
  }
  throw ModelError("external data file '" + location + "' was not found in " + given_dir_.string(),
                   "copy it beside the model, under that name", tensor);
}

DataFiles::Part DataFiles::Find(const onnx::TensorProto& tensor, uint64_t bytes) const {
  const ExternalReference reference = ParseExternalReference(tensor);
  std::shared_ptr<const MappedFile> file;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<const MappedFile>& entry = open_[reference.location];
    if (!entry) entry = MappedFile::Open(Resolve(reference.location, tensor.name()));
    file = entry;
  }
  RequireNoLfsPointer({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()},
                      file->path());
  const uint64_t available = file->bytes().size();
  if (reference.has_length && reference.length != bytes) {
    throw ModelError("external data of the tensor has " + std::to_string(reference.length) +
                         " bytes, its shape needs " + std::to_string(bytes),
                     "the model and its data do not belong together", tensor.name());
  }
  if (reference.offset > available || available - reference.offset < bytes) {
    throw ModelError("external data file '" + reference.location + "' has " +
                         std::to_string(available) + " bytes, the tensor needs bytes " +
                         std::to_string(reference.offset) + " to " +
                         std::to_string(reference.offset + bytes),
                     "the data file is truncated or belongs to another model", tensor.name());
  }
  return {file, file->bytes().subspan(reference.offset, bytes)};
}

}  // namespace hif8
