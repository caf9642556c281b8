// From a layer's operand back to the stored tensor that it is made of. Internal to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/scopes.h"
#include "lib/numeric/scale_layout.h"

namespace hif8 {

// One node between the stored tensor and the operand.
struct ChainStep {
  int scope = -1;
  int node = -1;
  Shape shape;            // of its result
  std::vector<int> perm;  // Transpose only: result axis i is axis perm[i] of what it reads
};

struct ConstantOperand {
  enum class Kind {
    kVariable,  // depends on the graph's inputs
    kChain,     // a stored tensor, through operators that only move or convert elements
    kComputed   // constant, but made in a way that cannot be walked through: see `reason`
  };
  Kind kind = Kind::kVariable;
  std::string reason;
  std::string evaluable;         // kComputed, and not from codes: the value that has to be computed
  Definition source;             // kChain: the initializer
  std::vector<ChainStep> steps;  // from the stored tensor to the operand
  Shape shape;                   // of the operand
  int elem_type = 0;             // of the operand
};

ConstantOperand TraceConstant(const Scopes& scopes, const DataFiles& files, int scope,
                              const std::string& name);

// A tensor's dimensions, and along which of them each index has a scale of its own.
struct ScaleAxes {
  Shape dims;
  std::vector<bool> scaled;

  static ScaleAxes None(const Shape& shape) {
    return {shape, std::vector<bool>(shape.size(), false)};
  }
};

// Maps axes to the same elements in the same order under other dimensions; nothing when a scaled
// dimension would be cut apart.
std::optional<ScaleAxes> Reshaped(const ScaleAxes& axes, const Shape& dims);
// Returns the operand's axes carried back to the stored tensor.
std::optional<ScaleAxes> MapBack(const ConstantOperand& operand, ScaleAxes axes);
// Returns the axes as a layout; nothing when they are too scattered for one.
std::optional<ChannelLayout> LayoutOf(const ScaleAxes& axes);

}  // namespace hif8
