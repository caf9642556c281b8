// Quantized constants as an ONNX file holds them: codes, their scales, and what node decodes them.
// Internal to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/model/onnx/onnx_impl.h"
#include "lib/numeric/block_scale.h"

namespace hif8 {

struct StoredCodes {
  // What the constant may be called where it is not quantized, most likely first. What WeightCodes
  // wrote says it; other programs derive names from the original's.
  std::vector<std::string> names;
  // The codes' number format; empty: integers (biases of 32 bits, say), which are values of
  // themselves.
  std::string format;
  const onnx::TensorProto* codes = nullptr;
  const onnx::TensorProto* scales = nullptr;
  const onnx::TensorProto* zero_points = nullptr;  // null: all zero
  bool standard = false;                           // by the standard operator, else by a function
  bool packed = false;                             // two codes a byte
  TileLayout layout;                               // of the codes, one by one
  std::string problem;                             // why they cannot be read, or empty
};

// What a node decodes: a function of onnx_functions.h, or standard DequantizeLinear with scales per
// tensor, along one dimension or per block, whoever wrote it. Nothing when it decodes no constant.
std::optional<StoredCodes> FindStoredCodes(const OnnxModel::Impl& model, int scope,
                                           const onnx::NodeProto& node);

// One code of the format for each element. Valid as long as the model is. Throws
// kModel where the file is damaged, as the others do.
Tensor ReadCodes(const StoredCodes& stored, const DataFiles& files);
// Without a format: what the integers stand for, as fp32.
Tensor ReadIntegers(const StoredCodes& stored, const DataFiles& files);
// One for each tile.
std::vector<float> ReadScales(const StoredCodes& stored, const DataFiles& files);
// Likewise, in units of codes; empty when all are zero.
std::vector<float> ReadZeroPoints(const StoredCodes& stored, const DataFiles& files);

}  // namespace hif8
