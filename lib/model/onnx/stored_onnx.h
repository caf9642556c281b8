// The constants of an ONNX file as they stand in it.
#pragma once

#include <filesystem>
#include <memory>

#include "lib/model/stored_model.h"

namespace hif8 {

// Codes are those of stored_codes.h. Throws as OnnxModel::Load.
std::unique_ptr<StoredModel> OpenStoredOnnx(const std::filesystem::path& path,
                                            const FormatRegistry& formats,
                                            const ConstantEvaluator& evaluate);

}  // namespace hif8
