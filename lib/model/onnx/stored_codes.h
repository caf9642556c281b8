// Quantized constants as an ONNX file holds them: codes, their scales, and what node decodes them.
// Internal to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/model/onnx/code_type.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/uses.h"
#include "lib/numeric/block_scale.h"

namespace hif8 {

struct StoredCodes {
  // Lists names that the constant may have where it is not quantized, most likely first.
  // WeightCodes writes its name down; other programs derive names from the original's.
  std::vector<std::string> names;
  // The codes' number format; empty: integers (biases of 32 bits, say), which are values of
  // themselves.
  std::string format;
  const CodeType* type = nullptr;  // null: UINT8 codes of a function
  const onnx::TensorProto* codes = nullptr;
  const onnx::TensorProto* scales = nullptr;
  const onnx::TensorProto* zero_points = nullptr;   // null: all zero
  const onnx::TensorProto* factor = nullptr;        // every scale is multiplied by it, or null
  const onnx::TensorProto* global_scale = nullptr;  // of a function: divided by it, or null
  // `codes` are floats, which become codes when the network runs: with these.
  struct Rounding {
    const onnx::TensorProto* scales = nullptr;
    const onnx::TensorProto* zero_points = nullptr;
    bool read_otherwise = false;  // the network reads the floats as they are, too
  };
  std::optional<Rounding> rounding;
  bool packed = false;  // two codes a byte, row by row: of a function
  TileLayout layout;    // of the codes, one by one
  std::string problem;  // why they cannot be read, or empty
};

// Finds what a node decodes, whoever wrote it: a function of onnx_functions.h, standard
// DequantizeLinear with scales per tensor, along one dimension or per block, or an operator on
// integers.
std::vector<StoredCodes> FindStoredCodes(const OnnxModel::Impl& model, const Uses& uses, int scope,
                                         const onnx::NodeProto& node,
                                         const FormatRegistry& formats);

// Returns one code of the format for each element. Valid as long as the model is. Throws
// kModel where the file is damaged, as the others do.
Tensor ReadCodes(const StoredCodes& stored, const FormatRegistry& formats, const DataFiles& files);
// Without a format: what the integers stand for, as fp32.
Tensor ReadIntegers(const StoredCodes& stored, const FormatRegistry& formats,
                    const DataFiles& files);
// Reads one scale for each tile.
std::vector<float> ReadScales(const StoredCodes& stored, const FormatRegistry& formats,
                              const DataFiles& files);
// Likewise, in units of codes; empty when all are zero.
std::vector<float> ReadZeroPoints(const StoredCodes& stored, const FormatRegistry& formats,
                                  const DataFiles& files);

}  // namespace hif8
