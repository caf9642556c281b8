#include "lib/model/onnx/shapes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/model/onnx/node_shapes.h"

namespace hif8 {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Values = google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>;

// Small functions that call each other can stand for more nodes than any network has.
constexpr int kMostNodes = 1'000'000;

// Dimensions on which both agree.
onnx::TensorShapeProto Common(const onnx::TensorShapeProto& a, const onnx::TensorShapeProto& b) {
  onnx::TensorShapeProto common;
  for (int i = 0; i < a.dim_size(); ++i) {
    auto* dim = common.add_dim();
    const bool same = a.dim(i).has_dim_value() && b.dim(i).has_dim_value() &&
                      a.dim(i).dim_value() == b.dim(i).dim_value();
    if (same) dim->set_dim_value(a.dim(i).dim_value());
  }
  return common;
}

class Walk {
 public:
  Walk(const onnx::ModelProto& model, const OpenDimensions& open)
      : model_(model), fill_(open.extent != 0) {
    for (const onnx::FunctionProto& function : model.functions()) {
      functions_[function.domain() + "\n" + function.name()] = &function;
    }
    for (const onnx::ValueInfoProto& input : model.graph().input()) {
      Declare(input, &values_);
      if (!fill_ || !input.type().tensor_type().has_shape()) continue;
      auto* shape = values_.types[input.name()].mutable_tensor_type()->mutable_shape();
      const bool time_first = open.time_first.contains(input.name());
      for (int i = 0; i < shape->dim_size(); ++i) {
        if (shape->dim(i).has_dim_value()) continue;
        const bool sample = i == (time_first ? 1 : 0);
        shape->mutable_dim(i)->set_dim_value(sample ? 1 : open.extent);
      }
    }
    // Declared shapes would contradict the ones that follow from sizes that were filled in.
    if (!fill_) Declare(model.graph().value_info(), &values_);
    AddGraph(model.graph(), StandardOpset(model), &values_);
    if (!fill_) Declare(model.graph().output(), &values_);
  }

  KnownValues& values() { return values_; }

 private:
  static void Declare(const onnx::ValueInfoProto& value, KnownValues* values) {
    if (!value.type().has_tensor_type()) return;
    onnx::TypeProto& type = values->types[value.name()];
    const bool worse = type.tensor_type().has_shape() && !value.type().tensor_type().has_shape();
    if (!worse) type = value.type();
    auto* tensor = type.mutable_tensor_type();
    if (tensor->elem_type() == 0) tensor->set_elem_type(onnx::TensorProto::FLOAT);
    for (auto& dim : *tensor->mutable_shape()->mutable_dim()) {
      if (dim.has_dim_value() && dim.dim_value() < 0) dim.clear_dim_value();
    }
    if (!value.type().tensor_type().has_shape() && !worse) tensor->clear_shape();
  }
  static void Declare(const Values& list, KnownValues* values) {
    for (const onnx::ValueInfoProto& value : list) Declare(value, values);
  }

  void AddGraph(const onnx::GraphProto& graph, int64_t opset, KnownValues* values) {
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      auto* type = values->types[tensor.name()].mutable_tensor_type();
      type->set_elem_type(tensor.data_type());
      type->clear_shape();
      type->mutable_shape();
      for (const int64_t d : tensor.dims()) type->mutable_shape()->add_dim()->set_dim_value(d);
      values->constants[tensor.name()] = &tensor;
    }
    AddNodes(graph.node(), opset, values);
  }

  void AddNodes(const Nodes& nodes, int64_t opset, KnownValues* values) {
    for (const onnx::NodeProto& node : nodes) {
      if (++nodes_ > kMostNodes) return;
      if (const auto called = functions_.find(node.domain() + "\n" + node.op_type());
          called != functions_.end() && !IsStandardDomain(node.domain())) {
        AddCall(*called->second, node, values);
      } else if (!AddBodies(node, opset, values) && IsStandardDomain(node.domain())) {
        AddNodeShapes(node, opset, values);
      }
    }
  }

  void AddCall(const onnx::FunctionProto& function, const onnx::NodeProto& call,
               KnownValues* values) {
    KnownValues inside;
    for (int i = 0; i < std::min(function.input_size(), call.input_size()); ++i) {
      const auto type = values->types.find(call.input(i));
      if (type != values->types.end()) inside.types[function.input(i)] = type->second;
    }
    int64_t opset = StandardOpset(model_);
    for (const onnx::OperatorSetIdProto& own : function.opset_import()) {
      if (IsStandardDomain(own.domain())) opset = own.version();
    }
    AddNodes(function.node(), opset, &inside);
    for (int i = 0; i < std::min(function.output_size(), call.output_size()); ++i) {
      const auto type = inside.types.find(function.output(i));
      if (type != inside.types.end()) Set(call.output(i), type->second, values);
    }
  }

  // Returns whether the node has graphs of its own: If, Loop, Scan.
  bool AddBodies(const onnx::NodeProto& node, int64_t opset, KnownValues* values) {
    std::vector<const onnx::GraphProto*> bodies;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) bodies.push_back(&attribute.g());
    }
    for (const onnx::GraphProto* body : bodies) {
      Declare(body->input(), values);
      Declare(body->value_info(), values);
      AddGraph(*body, opset, values);
      Declare(body->output(), values);
    }
    if (bodies.empty()) return false;
    if (node.op_type() == "If") {
      AddBranches(node, bodies, values);
    } else {
      AddIterations(node, *bodies[0], values);
    }
    return true;
  }

  static void AddBranches(const onnx::NodeProto& node,
                          const std::vector<const onnx::GraphProto*>& branches,
                          KnownValues* values) {
    for (int i = 0; i < node.output_size(); ++i) {
      std::optional<onnx::TypeProto> common;
      for (const onnx::GraphProto* branch : branches) {
        if (i >= branch->output_size()) return;
        const auto type = values->types.find(branch->output(i).name());
        if (type == values->types.end() || !type->second.tensor_type().has_shape()) return;
        const onnx::TensorShapeProto& shape = type->second.tensor_type().shape();
        if (!common) {
          common = type->second;
        } else if (common->tensor_type().shape().dim_size() != shape.dim_size()) {
          return;
        } else {
          auto* kept = common->mutable_tensor_type()->mutable_shape();
          *kept = Common(*kept, shape);
        }
      }
      if (common) Set(node.output(i), *common, values);
    }
  }

  // What Loop and Scan collect has one more dimension than the body's result; what they hand on may
  // change from one iteration to the next.
  static void AddIterations(const onnx::NodeProto& node, const onnx::GraphProto& body,
                            KnownValues* values) {
    const int skip = node.op_type() == "Loop" ? 1 : 0;  // the condition
    const int64_t handed_on = skip == 1
                                  ? node.input_size() - 2
                                  : node.input_size() - IntAttribute(node, "num_scan_inputs", 0);
    for (int i = 0; i < node.output_size() && i + skip < body.output_size(); ++i) {
      const auto type = values->types.find(body.output(i + skip).name());
      if (i < handed_on || type == values->types.end()) continue;
      if (!type->second.tensor_type().has_shape()) continue;
      onnx::TypeProto collected = type->second;
      auto* shape = collected.mutable_tensor_type()->mutable_shape();
      const onnx::TensorShapeProto one = *shape;
      shape->clear_dim();
      shape->add_dim();
      shape->MergeFrom(one);
      Set(node.output(i), collected, values);
    }
  }

  static void Set(const std::string& name, const onnx::TypeProto& type, KnownValues* values) {
    if (!name.empty()) values->types[name] = type;
  }

  const onnx::ModelProto& model_;
  bool fill_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;  // by domain and name
  KnownValues values_;
  int nodes_ = 0;
};

}  // namespace

InferredShapes::InferredShapes(const onnx::ModelProto& model, const OpenDimensions& open) {
  Walk walk(model, open);
  for (const auto& [name, type] : walk.values().types) {
    if (!type.tensor_type().has_shape()) continue;
    Shape shape;
    for (const auto& dim : type.tensor_type().shape().dim()) {
      shape.push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1);
    }
    shapes_[name] = std::move(shape);
  }
}

std::optional<Shape> InferredShapes::Find(const std::string& name) const {
  const auto it = shapes_.find(name);
  if (it == shapes_.end()) return std::nullopt;
  return it->second;
}

}  // namespace hif8
