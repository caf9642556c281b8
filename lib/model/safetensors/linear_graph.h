// One layer of a checkpoint on its own.
#pragma once

#include <optional>

#include "lib/model/graph.h"

namespace hif8 {

class Checkpoint;

// Returns a Linear with names as in lib/model/layer_graph.h, all fp32; nothing for other layers, of which
// the files do not say how they run.
std::optional<RunnableGraph> LinearGraph(const Checkpoint& checkpoint, int layer);

}  // namespace hif8
