// Which inputs of which operators are quantized tensors, and what gives their codes a meaning.
// Internal to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/model/onnx/scopes.h"
#include "lib/model/onnx/uses.h"

namespace hif8 {

// Everything but numbers is the name of a value.
struct QuantizedOperand {
  std::vector<std::string> names;  // what the tensor may be called after, most likely first
  std::string codes;
  std::string scales;
  std::string zero_points;   // empty: all zero
  std::string global_scale;  // of a function: one number that every scale is divided by, or empty
  std::string factor;        // one number that every scale is multiplied by, or empty
  std::optional<int64_t> axis;  // the dimension of the codes that a list of scales belongs to
  int64_t block = 0;            // how many elements along it share a scale, 0: no blocks
  // Tells how `codes` come about where they are floats that a QuantizeLinear makes codes of.
  struct Rounding {
    std::string scales, zero_points;
    int type;  // element type of the codes
    std::optional<int64_t> axis;
    int64_t block;
  };
  std::optional<Rounding> rounding;
};

// Finds what a node reads that may be quantized: DequantizeLinear's codes (of a QuantizeLinear or
// of a Gather before it, too), operands and biases of operators that calculate with integers, those
// of ONNX Runtime among them.
std::vector<QuantizedOperand> OperandsOf(const Scopes& scopes, const Uses& uses, int scope,
                                         const onnx::NodeProto& node);

// True when a floating-point input of the node is nothing but a scale: QLinearConv and its like.
bool IsLinearOperator(const onnx::NodeProto& node);
// QuantizeLinear or DequantizeLinear, the standard's or ONNX Runtime's, which are the same.
bool IsLinear(const onnx::NodeProto& node, std::string_view op);

}  // namespace hif8
