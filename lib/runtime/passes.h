// The two passes over data: one that observes a network, one that compares two.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/graph.h"
#include "lib/runtime/activation_source.h"
#include "lib/runtime/dataset.h"
#include "lib/runtime/session.h"

namespace hif8 {

// Runs the graph over all data. Returns `count` records, indexed by the id of the Observe taps; a
// tap that runs several times for one sample (a loop's body) adds to its record every time.
// Progress is told under `stage`. `observer` may be empty.
std::vector<TensorStats> CollectStats(const RunnableGraph& graph, Dataset& data, size_t count,
                                      const std::string& stage, LogSink& log,
                                      const ActivationObserver& observer = {});

struct MeasureOptions {
  size_t activations = 0;  // sizes of the result's lists
  size_t layers = 0;
  std::map<int, QuantizedActivation> quantized;  // by activation
  std::vector<NativeOperator> operators;         // for both sessions
  std::string stage;
};

// Runs both networks over the same data. Outputs of the layers of a run are held in memory.
Measurement MeasureGraphs(const EvaluationGraphs& graphs, Dataset& data,
                          const MeasureOptions& options, LogSink& log);

struct VariantOptions {
  uint64_t samples = 0;                   // the first so many; 0: all
  std::vector<NativeOperator> operators;  // for all sessions
  std::string stage;
  size_t at_once = 1;  // networks beside the original that are held in memory, >= 1
};

// Runs a network and `count` others with the same inputs and outputs over the same data and
// measures how far each of their outputs is from the first one's.
std::vector<Measurement> MeasureVariantGraphs(const RunnableGraph& original, size_t count,
                                              const std::function<RunnableGraph(size_t)>& variant,
                                              Dataset& data, const VariantOptions& options,
                                              LogSink& log);

}  // namespace hif8
