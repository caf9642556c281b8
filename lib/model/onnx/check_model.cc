#include "lib/model/onnx/check_model.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/model/onnx/check_node.h"
#include "lib/model/onnx/check_tensor.h"
#include "lib/model/onnx/sort_nodes.h"

namespace hif8 {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using FunctionKey = std::pair<std::string, std::string>;  // domain and name

// Calls nest no deeper than messages do.
constexpr int kDeepestCall = 100;

// The values that nodes may read: those of a graph, then those of the graphs around it.
struct Names {
  const Names* outer = nullptr;
  std::unordered_set<std::string_view> defined = {};

  bool Has(std::string_view name) const {
    return defined.contains(name) || (outer != nullptr && outer->Has(name));
  }
};

// What differs between the model's graph and the body of a function.
struct Place {
  std::string path;   // "" for the model's graph, else where its nodes stand, for messages
  int64_t opset = 0;  // of the standard operators
};

class Checker {
 public:
  Checker(const onnx::ModelProto& model, const DataFiles& files) : model_(model), files_(files) {}

  void Run() {
    for (const onnx::FunctionProto& function : model_.functions()) {
      if (!IsStandardDomain(function.domain())) {
        functions_[{function.domain(), function.name()}].push_back(&function);
      }
    }
    for (const auto& [key, overloads] : functions_) {
      for (const onnx::FunctionProto* function : overloads) CheckCalls(*function);
    }
    for (const onnx::ValueInfoProto& input : model_.graph().input()) CheckInputSize(input);
    CheckGraph(model_.graph(), nullptr, {{}, StandardOpset(model_)});
    for (const onnx::FunctionProto& function : model_.functions()) CheckFunction(function);
  }

 private:
  // Returns how deep calls nest below the function, itself included.
  int CheckCalls(const onnx::FunctionProto& function) {
    const auto [depth, added] = depths_.emplace(&function, kOpen);
    if (!added) {
      if (depth->second != kOpen) return depth->second;
      throw GraphError("function '" + function.name() + "' calls itself in a circle", {});
    }
    if (++nested_ > kDeepestCall) {
      throw GraphError("functions call each other more than " + std::to_string(kDeepestCall) +
                           " deep, the last one is '" + function.name() + "'",
                       {});
    }
    int deepest = 0;
    CheckCalls(function.node(), &deepest);
    --nested_;
    return depths_[&function] = CheckDepth(deepest + 1, function);
  }

  void CheckCalls(const Nodes& nodes, int* deepest) {
    for (const onnx::NodeProto& node : nodes) {
      const auto called = functions_.find({node.domain(), node.op_type()});
      if (called != functions_.end()) {
        for (const onnx::FunctionProto* function : called->second) {
          *deepest = std::max(*deepest, CheckCalls(*function));
        }
      }
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) CheckCalls(attribute.g().node(), deepest);
        for (const onnx::GraphProto& body : attribute.graphs()) CheckCalls(body.node(), deepest);
      }
    }
  }

  static int CheckDepth(int depth, const onnx::FunctionProto& function) {
    if (depth <= kDeepestCall) return depth;
    throw GraphError("functions call each other more than " + std::to_string(kDeepestCall) +
                         " deep, the first one is '" + function.name() + "'",
                     {});
  }

  void CheckFunction(const onnx::FunctionProto& function) {
    Place place{"function " + function.name(), StandardOpset(model_)};
    for (const onnx::OperatorSetIdProto& opset : function.opset_import()) {
      if (IsStandardDomain(opset.domain())) place.opset = opset.version();
    }
    Names names;
    for (const std::string& input : function.input()) Define(input, "input", place, &names);
    CheckNodes(function.node(), &names, place);
    for (const std::string& output : function.output()) CheckOutput(output, names, place);
  }

  void CheckGraph(const onnx::GraphProto& graph, const Names* outer, const Place& place) {
    Names names{outer};
    for (const onnx::ValueInfoProto& input : graph.input()) {
      Define(input.name(), "input", place, &names);
    }
    std::unordered_set<std::string_view> constants;
    const auto add = [&](const std::string& name) {
      if (!constants.insert(name).second) {
        throw GraphError("two tensors are named '" + name + "'", place.path);
      }
      // A tensor that is listed as an input, too, is the input's default.
      names.defined.insert(name);
    };
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      CheckTensor(tensor, files_);
      add(tensor.name());
    }
    for (const onnx::SparseTensorProto& sparse : graph.sparse_initializer()) {
      CheckSparseTensor(sparse, files_);
      add(sparse.values().name());
    }
    CheckNodes(graph.node(), &names, place);
    CheckWindows(graph, place);
    for (const onnx::ValueInfoProto& output : graph.output()) {
      CheckOutput(output.name(), names, place);
    }
  }

  // A ConvTranspose's stored weight has a dimension that the window slides along, and as many
  // dimensions as an input of the model that it reads.
  static void CheckWindows(const onnx::GraphProto& graph, const Place& place) {
    std::map<std::string_view, int> ranks;
    for (const onnx::ValueInfoProto& input : graph.input()) {
      const auto& type = input.type().tensor_type();
      if (type.has_shape()) ranks[input.name()] = type.shape().dim_size();
    }
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      ranks[tensor.name()] = tensor.dims_size();
    }
    for (const onnx::NodeProto& node : graph.node()) {
      if (!IsStandardOp(node, "ConvTranspose")) continue;
      const auto weight = ranks.find(node.input(1)), input = ranks.find(node.input(0));
      if (weight == ranks.end()) continue;
      const bool differs = input != ranks.end() && input->second != weight->second;
      if (weight->second >= 3 && !differs) continue;
      throw GraphError(
          NodeText(node) + " has a weight of " + std::to_string(weight->second) +
              " dimensions, expected " +
              (differs ? "the input's " + std::to_string(input->second) : std::string("3 or more")),
          place.path);
    }
  }

  void CheckNodes(const Nodes& nodes, Names* names, const Place& place) {
    for (const onnx::NodeProto& node : nodes) {
      for (const std::string& output : node.output()) {
        if (!output.empty() && !names->defined.insert(output).second) {
          throw GraphError(
              "value '" + output + "' is computed twice, the second time by " + NodeText(node),
              place.path);
        }
      }
    }
    for (const onnx::NodeProto& node : nodes) CheckOneNode(node, *names, place);
    if (!CanBeSorted(nodes)) {
      throw GraphError("its nodes read each other's results in a circle", place.path);
    }
  }

  void CheckOneNode(const onnx::NodeProto& node, const Names& names, const Place& place) {
    for (const std::string& input : node.input()) {
      if (input.empty() || names.Has(input)) continue;
      throw GraphError(NodeText(node) + " reads '" + input + "', which nothing defines",
                       place.path);
    }
    const auto called = functions_.find({node.domain(), node.op_type()});
    // Which one of several overloads is called, only the engine says.
    const bool one = called != functions_.end() && called->second.size() == 1;
    CheckNode(
        node,
        {.opset = place.opset, .called = one ? called->second[0] : nullptr, .where = place.path});
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_t()) CheckTensor(attribute.t(), files_);
      for (const onnx::TensorProto& tensor : attribute.tensors()) CheckTensor(tensor, files_);
      if (attribute.has_sparse_tensor()) CheckSparseTensor(attribute.sparse_tensor(), files_);
      for (const onnx::SparseTensorProto& sparse : attribute.sparse_tensors()) {
        CheckSparseTensor(sparse, files_);
      }
      const std::string name = node.name().empty() ? node.op_type() : node.name();
      Place inner = place;
      inner.path += (place.path.empty() ? "" : "/") + name + "/" + attribute.name();
      if (attribute.has_g()) CheckGraph(attribute.g(), &names, inner);
      for (const onnx::GraphProto& body : attribute.graphs()) CheckGraph(body, &names, inner);
    }
  }

  static void Define(const std::string& name, const std::string& what, const Place& place,
                     Names* names) {
    if (name.empty()) throw GraphError("an " + what + " has no name", place.path);
    if (!names->defined.insert(name).second) {
      throw GraphError("two " + what + "s are named '" + name + "'", place.path);
    }
  }

  static void CheckOutput(const std::string& name, const Names& names, const Place& place) {
    if (!names.Has(name)) throw GraphError("output '" + name + "' is not defined", place.path);
  }

  static void CheckInputSize(const onnx::ValueInfoProto& input) {
    Shape known;
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (dim.dim_value() > 0) known.push_back(dim.dim_value());
    }
    if (BytesOf(known)) return;
    throw ModelError("input '" + input.name() + "' has an impossible shape: one of " +
                         ShapeText(known) + " has more elements than can be counted",
                     "export the model again with the input's real dimensions");
  }

  static constexpr int kOpen = -1;  // being looked at

  const onnx::ModelProto& model_;
  const DataFiles& files_;
  std::map<FunctionKey, std::vector<const onnx::FunctionProto*>> functions_;  // by overload
  std::map<const onnx::FunctionProto*, int> depths_;
  int nested_ = 0;
};

}  // namespace

void CheckModel(const onnx::ModelProto& model, const DataFiles& files) {
  Checker(model, files).Run();
}

}  // namespace hif8
