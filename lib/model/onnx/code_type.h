// The element types that quantized tensors are stored in. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/onnx_proto.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/zero_points.h"

namespace hif8 {

struct CodeType {
  int type;                 // ONNX's number
  std::string_view format;  // whose codes they are; empty: integers that are values of themselves
  int bits;
  uint8_t flip;     // what a stored code is to be XORed with to be the format's, and how far it is
                    // above it (unsigned integers)
  CodeRange range;  // of integers, as stored

  bool IsInteger() const { return range.least < range.most; }
  DType dtype() const;  // U8 where there is none of its own
};

// Returns null for types that are none of codes.
const CodeType* FindCodeType(int onnx_type);

// Returns the bytes that the tensor takes up.
size_t StoredBytes(const onnx::TensorProto& tensor);
// Returns one code of the format for each element; `type` is the tensor's and has a format.
Tensor ReadCodeTensor(const onnx::TensorProto& tensor, const CodeType& type,
                      const DataFiles& files);
// Floats, or what codes and integers stand for without a scale (unsigned ones count from 0).
std::vector<float> ReadNumbers(const onnx::TensorProto& tensor, const FormatRegistry& formats,
                               const DataFiles& files);

}  // namespace hif8
