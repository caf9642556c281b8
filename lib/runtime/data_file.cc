#include "lib/runtime/data_file.h"

#include "lib/core/error.h"
#include "lib/model/safetensors/safetensors_file.h"

namespace hif8 {

Tensor Rows(const Tensor& whole, size_t first, size_t count) {
  Tensor rows = whole;
  if (whole.view.shape.empty()) return rows;
  const auto extent = static_cast<size_t>(whole.view.shape[0]);
  rows.view.shape[0] = static_cast<int64_t>(count);
  if (extent > 0) rows.view.data += whole.view.bytes() / extent * first;
  return rows;
}

void TensorsFile::Add(const std::string& name, Tensor tensor) {
  arrays_.push_back({name, tensor.view.dtype, tensor.view.shape});
  tensors_.push_back(std::move(tensor));
}

Tensor TensorsFile::Read(size_t array, size_t first, size_t count) {
  return Rows(tensors_[array], first, count);
}

std::unique_ptr<DataFile> OpenSafetensorsData(const std::filesystem::path& path) {
  const auto source = SafetensorsFile::Open(path);
  auto file = std::make_unique<TensorsFile>();
  for (const SafetensorsEntry& entry : source->tensors()) {
    if (!HasKnownValues(entry.dtype)) {
      throw ModelError("tensor '" + entry.name + "': values of type " + std::string(entry.type()) +
                           " are not read",
                       "save the data in a type of whole bytes, as F32 or I64", path.string());
    }
    file->Add(entry.name, source->Read(entry));
  }
  return file;
}

}  // namespace hif8
