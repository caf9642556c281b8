// What is written beside a quantized model, and read again.
#pragma once

#include <filesystem>

#include "lib/model/model.h"
#include "lib/quant/pipeline.h"

namespace hif8 {

// recipe.yaml and calibration.yaml; delayed_state.yaml after a study of delayed scaling.
void WriteSideFiles(const Model& model, const PipelineResult& result,
                    const std::filesystem::path& dir);

// Fills the scales of the plan's activations, and what else a data pass would have, from a
// calibration.yaml of the same model. Throws kUsage when it is of another one or lacks a scale.
void TakeScalesFrom(const std::filesystem::path& file, const Model& model,
                    const ParseContext& context, PipelineResult* result);

}  // namespace hif8
