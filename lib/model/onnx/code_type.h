// The element types that quantized tensors are stored in. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/onnx_proto.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/zero_points.h"

namespace hif8 {

struct CodeType {
  int type;         // ONNX's number
  int signed_type;  // that of codes of a format: the integers with a sign in the place of others
  int bits;
  uint8_t flip = 0;          // what a stored code is to be XORed with to be signed_type's, and how
                             // far it is above it
  CodeRange range = {0, 0};  // of integers, as stored

  bool IsInteger() const { return range.least < range.most; }
  DType dtype() const;  // U8 where there is none of its own
  // Returns the format whose codes they are, with scales of any kind; null where there is none,
  // such as of integers that are values of themselves.
  const NumberFormat* Format(const FormatRegistry& formats) const;
  // Returns whether codes of the format have this type.
  bool Holds(const NumberFormat& format) const;
};

// Returns null for types that are none of codes.
const CodeType* FindCodeType(int onnx_type);

// Returns the bytes that the tensor takes up.
size_t StoredBytes(const onnx::TensorProto& tensor);
// Returns one code of signed_type for each element; `type` is the tensor's, of at most 8 bits.
Tensor ReadCodeTensor(const onnx::TensorProto& tensor, const CodeType& type,
                      const DataFiles& files);
// Floats, or what codes and integers stand for without a scale (unsigned ones count from 0).
std::vector<float> ReadNumbers(const onnx::TensorProto& tensor, const FormatRegistry& formats,
                               const DataFiles& files);

}  // namespace hif8
