// The model's own functions that hold layers, put in the place of their calls. Internal to this
// folder.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Why calls of a function (domain, name) with layers inside stay as they are.
using FunctionProblems = std::map<std::pair<std::string, std::string>, std::string>;

// Operators that layers are made of.
bool IsLayerOperator(std::string_view op);

// Replaces every call of a function that holds layer operators, itself or through functions that it
// calls, by the function's nodes: values and nodes inside are named "call/name". Functions that
// nobody calls any more are removed; those without layers stay. Returns those with layers that
// could not be replaced. Throws kModel when functions call each other in a circle.
FunctionProblems InlineFunctions(onnx::ModelProto* model);

}  // namespace hif8
