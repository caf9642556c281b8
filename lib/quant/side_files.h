// What is written beside a quantized model.
#pragma once

#include <filesystem>

#include "lib/model/model.h"
#include "lib/quant/pipeline.h"

namespace hif8 {

// recipe.yaml and calibration.yaml; delayed_state.yaml after a study of delayed scaling.
void WriteSideFiles(const Model& model, const PipelineResult& result,
                    const std::filesystem::path& dir);

}  // namespace hif8
