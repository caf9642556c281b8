// ONNX test data.
#include "lib/core/error.h"
#include "lib/runtime/data_file.h"
namespace hif8 {
std::unique_ptr<DataFile> OpenTestData(const std::vector<std::filesystem::path>& paths,
                                       std::span<const GraphValue>) {
  throw ModelError("ONNX test data (.pb) is not read yet", {}, paths[0].string());
}
}  // namespace hif8
