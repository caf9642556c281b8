// ONNX's messages and small accessors for them. Internal to this folder.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/dtype.h"
#include "lib/core/tensor.h"

namespace hif8 {

// Element types that ONNX got after libonnx 1.12: messages carry them as plain integers.
inline constexpr int kOnnxFloat8E4M3 = 17;
inline constexpr int kOnnxFloat8E5M2 = 19;
inline constexpr int kOnnxUint4 = 21;
inline constexpr int kOnnxInt4 = 22;
inline constexpr int kOnnxFloat4E2M1 = 23;
inline constexpr int kOnnxFloat8E8M0 = 24;

// False for strings, complex numbers and types that only other programs know.
bool ToDType(int onnx_type, DType* dtype);
int FromDType(DType dtype);
// Returns "float", "bfloat16", "type 21" ...
std::string OnnxTypeName(int onnx_type);

// True for both spellings of the standard operators' domain.
inline bool IsStandardDomain(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx";
}
inline bool IsStandardOp(const onnx::NodeProto& node, std::string_view op) {
  return node.op_type() == op && IsStandardDomain(node.domain());
}

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name);
int64_t IntAttribute(const onnx::NodeProto& node, std::string_view name, int64_t otherwise);
std::vector<int64_t> IntsAttribute(const onnx::NodeProto& node, std::string_view name);
std::string StringAttribute(const onnx::NodeProto& node, std::string_view name);
void SetAttribute(onnx::NodeProto* node, const std::string& name, int64_t value);

// Returns the name of an input, "" when it is left out or there is no such input.
inline const std::string& InputName(const onnx::NodeProto& node, int index) {
  static const std::string kNone;
  return index >= 0 && index < node.input_size() ? node.input(index) : kNone;
}

// Version of the standard operators that the model asks for, 0 when it names none.
int64_t StandardOpset(const onnx::ModelProto& model);
void SetOpset(onnx::ModelProto* model, const std::string& domain, int64_t version);

// Returns the dimensions as a shape; throws kModel naming the tensor when one is negative or the
// number of bytes overflows.
Shape TensorShape(const onnx::TensorProto& tensor);

// Returns "node 'name' (Conv)" for messages.
std::string NodeText(const onnx::NodeProto& node);

// Makes a node without a name: names must be unique, outputs are already.
onnx::NodeProto MakeNode(const std::string& op, std::vector<std::string> inputs,
                         std::vector<std::string> outputs, const std::string& domain = {});

// Makes a small tensor with its values inline.
onnx::TensorProto MakeTensor(const std::string& name, const Shape& shape, DType dtype,
                             const void* data);
// Makes a tensor of as many values as the shape has elements; kBug for others.
onnx::TensorProto MakeTensor(const std::string& name, const Shape& shape,
                             const std::vector<float>& values);
onnx::TensorProto MakeTensor(const std::string& name, const Shape& shape,
                             const std::vector<int64_t>& values);

}  // namespace hif8
