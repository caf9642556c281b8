// Experts that calibration data hardly reached.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/model/model.h"
#include "lib/numeric/tensor_stats.h"
#include "lib/quant/config.h"
#include "lib/quant/plan.h"

namespace hif8 {

struct RareExperts {
  std::map<int, std::string> pooled;  // activation -> why it has the statistics of all experts
  std::vector<std::string> kept;      // layers that were taken back from the plan
};

// Treats experts (layers named ...experts.N...) whose input was seen in fewer rows than
// config.min_rows, or in none, as config.rare says: gives them the statistics of all experts of
// their block together, takes them back from the plan, or throws kModel naming the first. `stats`
// is indexed like Model::activations(). Activations without a rule that needs data are left alone.
RareExperts TreatRareExperts(const Model& model, const ExpertsConfig& config,
                             std::vector<TensorStats>* stats, QuantPlan* plan);

}  // namespace hif8
