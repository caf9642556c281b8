// Files without functions: the same arithmetic in standard operators alone, for runtimes that know
// no functions. Internal to this folder.
#pragma once

#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Replaces every call of a function of a format's domain by the function's nodes, with constants
// shared among all of them, and removes the functions. The node that makes a call's result says in
// its description what was called, for FoldPlainOperators.
void ExpandFormatFunctions(onnx::ModelProto* model);

// Undoes it: what ExpandFormatFunctions wrote becomes calls of functions again, whose bodies are
// the nodes of the file. Nodes that another program changed stay as they are.
void FoldPlainOperators(onnx::ModelProto* model);

}  // namespace hif8
