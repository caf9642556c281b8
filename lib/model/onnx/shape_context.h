// What libonnx is told of a node when it infers shapes. Internal to node_shapes.cc.
#pragma once

#include <onnx/defs/shape_inference.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/model/onnx/node_shapes.h"
#include "lib/model/onnx/onnx_proto.h"
#include "lib/model/onnx/tensor_data.h"

namespace hif8 {

// Shapes and axes have few elements; longer lists are data.
inline constexpr int kMostIntegers = 64;

// Small integer tensors as numbers; nothing for others.
inline std::optional<std::vector<int64_t>> SmallInts(const onnx::TensorProto& tensor) {
  if (tensor.dims_size() > 1 || IsExternal(tensor)) return std::nullopt;
  if (ElementCount(TensorShape(tensor)) > kMostIntegers) return std::nullopt;
  static const DataFiles& none = *new DataFiles(".");
  return ReadInts(tensor, none);
}

// Holds what is known of a node's inputs.
class NodeInputs {
 public:
  NodeInputs(const onnx::NodeProto& node, const KnownValues& values)
      : node_(node), values_(values) {
    // A value of unknown type has one: libonnx ends the process at some that have none.
    unknown_.mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }

  const onnx::NodeProto& node() const { return node_; }
  size_t size() const { return static_cast<size_t>(node_.input_size()); }
  // Returns null for an input that is left out.
  const onnx::TypeProto* Type(size_t index) const {
    const std::string& name = Name(index);
    if (name.empty()) return nullptr;
    const auto found = values_.types.find(name);
    return found == values_.types.end() ? &unknown_ : &found->second;
  }
  // Returns null where the shape is not known.
  const onnx::TensorShapeProto* Dimensions(size_t index) const {
    const onnx::TypeProto* type = Type(index);
    return type != nullptr && type->tensor_type().has_shape() ? &type->tensor_type().shape()
                                                              : nullptr;
  }
  const onnx::TensorProto* Constant(size_t index) const {
    const auto found = values_.constants.find(Name(index));
    return found == values_.constants.end() ? nullptr : found->second;
  }
  const onnx::TensorShapeProto* Computed(size_t index) const {
    const auto found = values_.integers.find(Name(index));
    return found == values_.integers.end() ? nullptr : &found->second;
  }
  // Returns the input's integers if all are known, stored or computed.
  std::optional<std::vector<int64_t>> Integers(size_t index) const {
    if (const onnx::TensorProto* constant = Constant(index)) return SmallInts(*constant);
    const onnx::TensorShapeProto* computed = Computed(index);
    if (computed == nullptr) return std::nullopt;
    std::vector<int64_t> values;
    for (const auto& dim : computed->dim()) {
      if (!dim.has_dim_value()) return std::nullopt;
      values.push_back(dim.dim_value());
    }
    return values;
  }

 private:
  const std::string& Name(size_t index) const { return InputName(node_, static_cast<int>(index)); }

  const onnx::NodeProto& node_;
  const KnownValues& values_;
  onnx::TypeProto unknown_;
};

// Answers what libonnx asks when it infers shapes.
class ShapeContext : public onnx::InferenceContext {
 public:
  explicit ShapeContext(const NodeInputs& inputs)
      : inputs_(inputs), outputs_(static_cast<size_t>(inputs.node().output_size())) {}

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    return FindAttribute(inputs_.node(), name);
  }
  size_t getNumInputs() const override { return inputs_.size(); }
  const onnx::TypeProto* getInputType(size_t index) const override { return inputs_.Type(index); }
  const onnx::TensorProto* getInputData(size_t index) const override {
    return inputs_.Constant(index);
  }
  const onnx::SparseTensorProto* getInputSparseData(size_t) const override { return nullptr; }
  const onnx::TensorShapeProto* getSymbolicInput(size_t index) const override {
    return inputs_.Computed(index);
  }
  size_t getNumOutputs() const override { return outputs_.size(); }
  onnx::TypeProto* getOutputType(size_t index) override { return &outputs_.at(index); }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string&) override {
    return nullptr;  // no operator with a body is asked about
  }

  const std::vector<onnx::TypeProto>& outputs() const { return outputs_; }

 private:
  const NodeInputs& inputs_;
  std::vector<onnx::TypeProto> outputs_;
};

// Tells libonnx of a node that computes integers.
class IntegerContext : public onnx::DataPropagationContext {
 public:
  IntegerContext(const NodeInputs& inputs, const std::vector<onnx::TypeProto>& outputs,
                 KnownValues* values)
      : inputs_(inputs), outputs_(outputs), values_(*values) {}

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    return FindAttribute(inputs_.node(), name);
  }
  size_t getNumInputs() const override { return inputs_.size(); }
  const onnx::TypeProto* getInputType(size_t index) const override { return inputs_.Type(index); }
  size_t getNumOutputs() const override { return outputs_.size(); }
  const onnx::TypeProto* getOutputType(size_t index) const override { return &outputs_.at(index); }
  const onnx::TensorShapeProto* getInputData(size_t index) override {
    if (const onnx::TensorShapeProto* computed = inputs_.Computed(index)) return computed;
    const auto stored = inputs_.Integers(index);
    if (!stored) return nullptr;
    onnx::TensorShapeProto& shape = stored_[index];
    shape.clear_dim();
    for (const int64_t value : *stored) shape.add_dim()->set_dim_value(value);
    return &shape;
  }
  void addOutputData(size_t index, onnx::TensorShapeProto&& integers) override {
    if (index >= outputs_.size() || integers.dim_size() > kMostIntegers) return;
    values_.integers[inputs_.node().output(static_cast<int>(index))] = std::move(integers);
  }

 private:
  const NodeInputs& inputs_;
  const std::vector<onnx::TypeProto>& outputs_;
  KnownValues& values_;
  std::unordered_map<size_t, onnx::TensorShapeProto> stored_;
};

}  // namespace hif8
