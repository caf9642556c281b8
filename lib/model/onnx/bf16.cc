// The engine has few bf16 kernels on a CPU: inside this program such models are computed in fp32.
#include <cstring>
#include <string>

#include "lib/model/onnx/runnable.h"
#include "lib/model/onnx/tensor_data.h"
#include "lib/model/onnx/unique_names.h"

namespace hif8 {
namespace {

using onnx::TensorProto;

class Bf16Rewriter {
 public:
  explicit Bf16Rewriter(onnx::ModelProto* model) : model_(*model) {
    names_.ReserveAll(model->graph());
  }

  void Run() {
    VisitGraph(model_.mutable_graph());
    for (onnx::FunctionProto& function : *model_.mutable_functions()) {
      VisitNodes(function.mutable_node());
    }
  }

 private:
  void VisitGraph(onnx::GraphProto* graph) {
    for (auto* values :
         {graph->mutable_input(), graph->mutable_output(), graph->mutable_value_info()}) {
      for (onnx::ValueInfoProto& value : *values) VisitType(value.mutable_type());
    }
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (TensorProto& tensor : *graph->mutable_initializer()) {
      if (tensor.data_type() != TensorProto::BFLOAT16) continue;
      // The stored tensor may be large and external: it stays, and the engine folds the conversion.
      const std::string name = tensor.name();
      tensor.set_name(names_.Make(name + "_bf16"));
      *nodes.Add() = MakeCast(tensor.name(), name, TensorProto::FLOAT);
    }
    VisitNodes(graph->mutable_node());
    for (onnx::NodeProto& node : *graph->mutable_node()) {
      const bool rounds = ConvertsToBf16(node);
      const std::string output = rounds ? node.output(0) : std::string();
      if (rounds) node.set_output(0, names_.Make(output + "_bf16"));
      const std::string rounded = rounds ? node.output(0) : std::string();
      *nodes.Add() = std::move(node);
      if (rounds) *nodes.Add() = MakeCast(rounded, output, TensorProto::FLOAT);
    }
    graph->mutable_node()->Swap(&nodes);
  }

  static bool ConvertsToBf16(const onnx::NodeProto& node) {
    return IsStandardOp(node, "Cast") && node.output_size() == 1 &&
           IntAttribute(node, "to", 0) == TensorProto::BFLOAT16;
  }

  static onnx::NodeProto MakeCast(const std::string& from, const std::string& to, int type) {
    onnx::NodeProto node = MakeNode("Cast", {from}, {to});
    SetAttribute(&node, "to", type);
    return node;
  }

  void VisitNodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes) {
    for (onnx::NodeProto& node : *nodes) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) VisitGraph(attribute.mutable_g());
        for (onnx::GraphProto& body : *attribute.mutable_graphs()) VisitGraph(&body);
        if (attribute.has_t()) VisitTensor(attribute.mutable_t());
        if (attribute.name() == "dtype" && attribute.i() == TensorProto::BFLOAT16) {
          attribute.set_i(TensorProto::FLOAT);
        }
      }
    }
  }

  static void VisitType(onnx::TypeProto* type) {
    if (type->has_tensor_type() && type->tensor_type().elem_type() == TensorProto::BFLOAT16) {
      type->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
    }
  }

  // Tensors of attributes are small (the value of a ConstantOfShape): converted in place.
  static void VisitTensor(TensorProto* tensor) {
    if (tensor->data_type() != TensorProto::BFLOAT16 || IsExternal(*tensor)) return;
    const Tensor values = ReadTensor(*tensor, DataFiles({}));
    std::vector<float> floats(values.view.size());
    ConvertToFloat(DType::kBF16, values.view.data, floats.size(), floats.data());
    *tensor = MakeTensor(tensor->name(), values.view.shape, floats);
  }

  onnx::ModelProto& model_;
  UniqueNames names_;
};

}  // namespace

void ComputeBf16InFloat(onnx::ModelProto* model) { Bf16Rewriter(model).Run(); }

}  // namespace hif8
