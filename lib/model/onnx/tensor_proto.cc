#include "lib/model/onnx/tensor_proto.h"

#include <limits>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/mapped_file.h"
#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/onnx_proto.h"
#include "lib/model/onnx/tensor_data.h"

namespace hif8 {
namespace {

// No tensor may have more elements than memory has bytes, also not one that claims them.
bool PlausibleShape(const onnx::TensorProto& tensor) {
  uint64_t n = 1;
  for (const int64_t d : tensor.dims()) {
    if (d < 0) return false;
    if (d > 0 && n > (uint64_t{1} << 48) / static_cast<uint64_t>(d)) return false;
    if (d > 0) n *= static_cast<uint64_t>(d);
  }
  return true;
}

}  // namespace

NamedTensor ReadTensorFile(const std::filesystem::path& path) {
  const auto file = MappedFile::Open(path);
  auto proto = std::make_shared<onnx::TensorProto>();
  const auto bytes = file->bytes();
  const bool small = bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max());
  if (bytes.empty() || !small ||
      !proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      !PlausibleShape(*proto)) {
    throw ModelError("expected an ONNX tensor (a serialized TensorProto)",
                     "the file is damaged, or no ONNX test data", path.string());
  }
  NamedTensor result;
  result.name = proto->name();
  try {
    result.tensor = ReadTensor(*proto, DataFiles(path));
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), error.hint(), path.string());
  }
  // Raw values are those of the message.
  if (result.tensor.owner == nullptr) result.tensor.owner = std::move(proto);
  return result;
}

}  // namespace hif8
