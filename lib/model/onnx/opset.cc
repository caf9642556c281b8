#include "lib/model/onnx/opset.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <set>

#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/shapes.h"
#include "lib/model/onnx/unique_names.h"

namespace hif8 {
namespace {

// Operators that got more element types, optional outputs or wider broadcasting, and no other
// meaning, between set 6 and set 9.
bool OnlyGrew(const std::string& op) {
  static const std::set<std::string> kOps = {"Cast",    "Constant",    "Flatten", "MatMul",
                                             "MaxPool", "AveragePool", "Max",     "Min",
                                             "Mean",    "Sum"};
  return kOps.contains(op);
}

// Operators whose operands were matched by the attributes `broadcast` and `axis` until set 6.
bool BroadcastByAttribute(const std::string& op) {
  static const std::set<std::string> kOps = {"Add", "Sub", "Mul",   "Div",     "Pow",  "And",
                                             "Or",  "Xor", "Equal", "Greater", "Less", "Gemm"};
  return kOps.contains(op);
}

void RemoveAttribute(onnx::NodeProto* node, std::string_view name) {
  auto* attributes = node->mutable_attribute();
  attributes->erase(std::remove_if(attributes->begin(), attributes->end(),
                                   [&](const auto& attribute) { return attribute.name() == name; }),
                    attributes->end());
}

class Converter {
 public:
  explicit Converter(onnx::ModelProto* model)
      : model_(*model), from_(StandardOpset(*model)), shapes_(*model) {
    names_.ReserveAll(model->graph());
  }

  std::string Run() {
    ConvertGraph(model_.mutable_graph());
    if (problem_.empty()) SetOpset(&model_, "", kFunctionOpset);
    return problem_;
  }

 private:
  void ConvertGraph(onnx::GraphProto* graph) {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (onnx::NodeProto& node : *graph->mutable_node()) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) ConvertGraph(attribute.mutable_g());
        for (onnx::GraphProto& body : *attribute.mutable_graphs()) ConvertGraph(&body);
      }
      if (IsStandardDomain(node.domain())) ConvertNode(graph, &nodes, &node);
      *nodes.Add() = std::move(node);
    }
    graph->mutable_node()->Swap(&nodes);
  }

  // Rewrites the node; what it needs before it is added to `nodes`.
  void ConvertNode(onnx::GraphProto* graph,
                   google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes,
                   onnx::NodeProto* node) {
    const std::string& op = node->op_type();
    const int now = SinceVersion(op, from_), then = SinceVersion(op, kFunctionOpset);
    if (now == 0) {
      Fail(*node, "is unknown");
    } else if (now == then || (OnlyGrew(op) && from_ >= 6)) {
      return;
    } else if (from_ < 6) {  // NOLINT(bugprone-branch-clone): before what later sets convert
      Fail(*node, "changed its meaning");
    } else if (BroadcastByAttribute(op)) {
      ConvertBroadcast(nodes, node);
    } else if (op == "BatchNormalization") {
      ConvertBatchNormalization(node);
    } else if (op == "Dropout") {
      RemoveAttribute(node, "is_test");  // a model that is run is not being trained
    } else if (op == "LSTM" || op == "GRU" || op == "RNN") {
      RemoveAttribute(node, "output_sequence");  // an output is optional by itself now
    } else if (op == "PRelu") {
      ConvertPRelu(nodes, node);
    } else if (op == "Upsample" && from_ >= 7) {
      ConvertUpsample(graph, node);
    } else {
      Fail(*node, "changed its meaning");
    }
  }

  static int SinceVersion(const std::string& op, int64_t opset) {
    const onnx::OpSchema* schema =
        onnx::OpSchemaRegistry::Schema(op, static_cast<int>(opset), onnx::ONNX_DOMAIN);
    return schema != nullptr ? schema->since_version() : 0;
  }

  void Fail(const onnx::NodeProto& node, const std::string& what) {
    if (problem_.empty()) problem_ = NodeText(node) + " " + what;
  }

  // Dimensions of size 1 behind those of `name`.
  std::string AppendDimensions(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes,
                               const std::string& name, size_t rank, size_t count) {
    onnx::NodeProto node = MakeNode("Unsqueeze", {name}, {names_.Make(name + "_unsqueezed")});
    onnx::AttributeProto* axes = node.add_attribute();
    axes->set_name("axes");
    axes->set_type(onnx::AttributeProto::INTS);
    for (size_t i = 0; i < count; ++i) axes->add_ints(static_cast<int64_t>(rank + i));
    *nodes->Add() = node;
    return node.output(0);
  }

  void ConvertBroadcast(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes,
                        onnx::NodeProto* node) {
    const bool has_axis = FindAttribute(*node, "axis") != nullptr;
    int64_t axis = IntAttribute(*node, "axis", 0);
    RemoveAttribute(node, "axis");
    RemoveAttribute(node, "broadcast");
    // Without an axis the last dimensions are matched, as they are since set 7.
    if (from_ >= 7 || !has_axis || node->op_type() == "Gemm") return;
    const std::optional<Shape> a = shapes_.Find(InputName(*node, 0));
    const std::optional<Shape> b = shapes_.Find(InputName(*node, 1));
    if (!a || !b) {
      Fail(*node, "broadcasts along an axis, and the shapes of its inputs are not known");
      return;
    }
    if (axis < 0) axis += static_cast<int64_t>(a->size());
    const int64_t missing =
        static_cast<int64_t>(a->size()) - axis - static_cast<int64_t>(b->size());
    if (axis < 0 || missing < 0) {
      Fail(*node, "broadcasts along an axis that its inputs do not have");
    } else if (missing > 0 && !b->empty()) {
      node->set_input(
          1, AppendDimensions(nodes, node->input(1), b->size(), static_cast<size_t>(missing)));
    }
  }

  void ConvertBatchNormalization(onnx::NodeProto* node) {
    if (IntAttribute(*node, "spatial", 1) == 0) Fail(*node, "is not spatial");
    if (from_ < 7 && IntAttribute(*node, "is_test", 0) == 0 && node->output_size() > 1) {
      Fail(*node, "is in training mode");
    }
    RemoveAttribute(node, "spatial");
    RemoveAttribute(node, "is_test");
  }

  void ConvertPRelu(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes,
                    onnx::NodeProto* node) {
    if (from_ >= 7) return;
    // One slope for each channel, the second dimension of x.
    const std::optional<Shape> x = shapes_.Find(InputName(*node, 0));
    const std::optional<Shape> slope = shapes_.Find(InputName(*node, 1));
    if (!x || !slope || slope->size() > 1) {
      Fail(*node, "has inputs of unknown shapes");
    } else if (slope->size() == 1 && (*slope)[0] != 1 && x->size() > 2) {
      node->set_input(1, AppendDimensions(nodes, node->input(1), 1, x->size() - 2));
    }
  }

  // The scales became an input.
  void ConvertUpsample(onnx::GraphProto* graph, onnx::NodeProto* node) {
    const onnx::AttributeProto* scales = FindAttribute(*node, "scales");
    if (scales == nullptr) {
      Fail(*node, "has no scales");
      return;
    }
    const std::string name = names_.Make(node->output(0) + "_scales");
    *graph->add_initializer() =
        MakeTensor(name, {scales->floats_size()},
                   std::vector<float>(scales->floats().begin(), scales->floats().end()));
    RemoveAttribute(node, "scales");
    node->add_input(name);
  }

  onnx::ModelProto& model_;
  int64_t from_;
  InferredShapes shapes_;
  UniqueNames names_;
  std::string problem_;
};

}  // namespace

std::string ConvertToFunctionOpset(onnx::ModelProto* model) {
  onnx::ModelProto converted = *model;
  const std::string problem = Converter(&converted).Run();
  if (problem.empty()) *model = std::move(converted);
  return problem;
}

}  // namespace hif8
