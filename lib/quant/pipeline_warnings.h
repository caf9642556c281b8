// What a run warns of, as text. Each function returns nothing where there is nothing to say.
// Internal to this module.
#pragma once

#include <string>
#include <vector>

#include "lib/numeric/tensor_stats.h"
#include "lib/quant/plan.h"
#include "lib/runtime/activation_source.h"

namespace hif8 {

// Tells how many values of a tensor its statistics leave out.
std::vector<std::string> NonFiniteWarnings(const std::string& tensor, const TensorStats& stats);

// Tells how many values of the network's outputs their errors leave out.
std::vector<std::string> NonFiniteWarnings(const std::vector<OutputMeasurement>& outputs);

// Tells for each of the layers, which data did not reach, why it stays.
std::vector<std::string> UnobservedWarnings(const Model& model, const QuantPlan& plan,
                                            const std::vector<std::string>& layers);

// Tells what the coverage does not count.
std::vector<std::string> CoverageWarnings(const Coverage& coverage);

}  // namespace hif8
