// The constants of an ONNX file as they stand in it.
#pragma once

#include <filesystem>
#include <memory>

#include "lib/model/stored_model.h"

namespace hif8 {

// Codes are those that the functions of onnx_functions.h decode. Throws as OnnxModel::Load.
std::unique_ptr<StoredModel> OpenStoredOnnx(const std::filesystem::path& path);

}  // namespace hif8
