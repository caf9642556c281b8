#include "lib/model/onnx/inline_functions.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/model/onnx/unique_names.h"

namespace hif8 {
namespace {

using Key = std::pair<std::string, std::string>;     // domain and name
using Renamed = std::map<std::string, std::string>;  // inside the function -> outside
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

constexpr std::array<std::string_view, 7> kLayerOperators = {
    "MatMul", "Gemm", "Conv", "ConvTranspose", "LSTM", "GRU", "RNN"};

// Far beyond what a network has; a few small functions can call each other without end.
constexpr int kMostCalls = 100000;

// Fields of FunctionProto that older versions of its definition do not have.
constexpr int kAttributeDefaults = 11;
constexpr int kOverload = 13;

// The messages of a repeated field, known to this build's definition of the message or not.
template <typename T>
std::vector<T> FieldMessages(const google::protobuf::Message& message, int number) {
  std::vector<T> found;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (const auto* field = message.GetDescriptor()->FindFieldByNumber(number)) {
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      found.emplace_back().CopyFrom(reflection.GetRepeatedMessage(message, field, i));
    }
    return found;
  }
  const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (unknown.field(i).number() != number) continue;
    found.emplace_back().ParseFromString(unknown.field(i).length_delimited());
  }
  return found;
}

bool HasText(const google::protobuf::Message& message, int number) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (const auto* field = message.GetDescriptor()->FindFieldByNumber(number)) {
    return !reflection.GetString(message, field).empty();
  }
  const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (unknown.field(i).number() == number) return true;
  }
  return false;
}

// visit(node) for all nodes and those of the graphs inside them.
template <typename Visit>
void ForEachNode(const Nodes& nodes, const Visit& visit) {
  for (const onnx::NodeProto& node : nodes) {
    visit(node);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) ForEachNode(attribute.g().node(), visit);
      for (const onnx::GraphProto& body : attribute.graphs()) ForEachNode(body.node(), visit);
    }
  }
}

Key KeyOf(const onnx::NodeProto& node) { return {node.domain(), node.op_type()}; }

std::string CallName(const onnx::NodeProto& call) {
  if (!call.name().empty() || call.output_size() == 0) return call.name();
  return call.op_type() + "_" + call.output(0);
}

// One function's nodes in the place of one call.
class Expansion {
 public:
  Expansion(const onnx::FunctionProto& function, const onnx::NodeProto& call, UniqueNames* names)
      : function_(function), call_(call), prefix_(CallName(call) + "/"), names_(*names) {
    for (const auto& attribute :
         FieldMessages<onnx::AttributeProto>(function, kAttributeDefaults)) {
      attributes_[attribute.name()] = attribute;
    }
    for (const onnx::AttributeProto& attribute : call.attribute()) {
      attributes_[attribute.name()] = attribute;
    }
  }

  Nodes Run() {
    Nodes nodes;
    Renamed renamed;
    for (int i = 0; i < function_.input_size(); ++i) {
      renamed[function_.input(i)] = InputName(call_, i);
    }
    for (int i = 0; i < std::min(function_.output_size(), call_.output_size()); ++i) {
      const std::string& to = call_.output(i);
      if (to.empty()) continue;
      const auto [known, added] = renamed.emplace(function_.output(i), to);
      // An input handed on, or one value that is two outputs.
      if (!added) copies_.emplace_back(known->second, to);
    }
    Rename(function_.node(), &renamed, &nodes);
    for (const auto& [from, to] : copies_) *nodes.Add() = MakeNode("Identity", {from}, {to});
    return nodes;
  }

 private:
  void Rename(const Nodes& from, Renamed* renamed, Nodes* to) {
    // What a body reads may be computed behind it in no valid graph, so one pass is enough.
    for (const onnx::NodeProto& original : from) {
      onnx::NodeProto node = original;
      node.set_name(names_.Make(prefix_ + (node.name().empty() ? node.op_type() : node.name())));
      for (std::string& input : *node.mutable_input()) input = Outside(input, *renamed);
      for (std::string& output : *node.mutable_output()) Define(&output, renamed);
      SetAttributes(original, *renamed, &node);
      *to->Add() = std::move(node);
    }
  }

  static std::string Outside(const std::string& name, const Renamed& renamed) {
    const auto found = renamed.find(name);
    return found == renamed.end() ? name : found->second;
  }

  void Define(std::string* name, Renamed* renamed) {
    if (name->empty()) return;
    const auto [known, added] = renamed->emplace(*name, "");
    if (added) known->second = names_.Make(prefix_ + *name);
    *name = known->second;
  }

  // The call's attributes in the place of references to them; bodies renamed.
  void SetAttributes(const onnx::NodeProto& original, const Renamed& renamed,
                     onnx::NodeProto* node) {
    node->clear_attribute();
    for (const onnx::AttributeProto& attribute : original.attribute()) {
      const auto given = attributes_.find(attribute.ref_attr_name());
      if (!attribute.ref_attr_name().empty() && given == attributes_.end()) continue;
      onnx::AttributeProto& set = *node->add_attribute();
      set = attribute.ref_attr_name().empty() ? attribute : given->second;
      set.set_name(attribute.name());
      if (!attribute.ref_attr_name().empty()) continue;
      if (set.has_g()) RenameBody(renamed, set.mutable_g());
      for (onnx::GraphProto& body : *set.mutable_graphs()) RenameBody(renamed, &body);
    }
  }

  // `renamed` is a copy: what a body defines is not seen outside.
  void RenameBody(Renamed renamed, onnx::GraphProto* body) {
    const auto define = [&](std::string* name) {
      renamed.erase(*name);  // hides one of the same name outside
      Define(name, &renamed);
    };
    for (onnx::ValueInfoProto& input : *body->mutable_input()) define(input.mutable_name());
    for (onnx::TensorProto& tensor : *body->mutable_initializer()) define(tensor.mutable_name());
    Nodes nodes;
    Rename(body->node(), &renamed, &nodes);
    body->mutable_node()->Swap(&nodes);
    body->clear_value_info();
    for (onnx::ValueInfoProto& output : *body->mutable_output()) {
      output.set_name(Outside(output.name(), renamed));
    }
  }

  const onnx::FunctionProto& function_;
  const onnx::NodeProto& call_;
  std::string prefix_;
  UniqueNames& names_;
  std::map<std::string, onnx::AttributeProto> attributes_;
  std::vector<std::pair<std::string, std::string>> copies_;
};

class Inliner {
 public:
  explicit Inliner(onnx::ModelProto* model) : model_(*model) {
    for (const onnx::FunctionProto& function : model_.functions()) {
      if (!IsStandardDomain(function.domain())) {
        functions_[{function.domain(), function.name()}] = &function;
      }
    }
  }

  FunctionProblems Run() {
    for (const auto& [key, function] : functions_) {
      if (HoldsLayers(key, {})) with_layers_.insert(key);
    }
    if (with_layers_.empty()) return {};
    names_.ReserveAll(model_.graph());
    for (const Key& key : with_layers_) {
      const std::string problem = Problem(*functions_.at(key));
      if (!problem.empty()) problems_[key] = problem;
    }
    Rewrite(model_.mutable_graph()->mutable_node());
    RemoveUncalled();
    return std::move(problems_);
  }

 private:
  bool HoldsLayers(const Key& key, std::set<Key> callers) {
    if (const auto known = holds_.find(key); known != holds_.end()) return known->second;
    const onnx::FunctionProto& function = *functions_.at(key);
    if (!callers.insert(key).second) {
      throw ModelError("invalid graph: function '" + key.second + "' calls itself in a circle",
                       "export the model again, or check it with onnx");
    }
    bool holds = false;
    ForEachNode(function.node(), [&](const onnx::NodeProto& node) {
      if (IsStandardDomain(node.domain())) {
        holds = holds || IsLayerOperator(node.op_type());
      } else if (functions_.contains(KeyOf(node))) {
        holds = HoldsLayers(KeyOf(node), callers) || holds;
      }
    });
    return holds_[key] = holds;
  }

  // Why its nodes cannot stand in the model's graph, or empty.
  std::string Problem(const onnx::FunctionProto& function) {
    if (HasText(function, kOverload)) return "which has overloads";
    for (const onnx::OperatorSetIdProto& wanted : function.opset_import()) {
      for (const onnx::OperatorSetIdProto& known : model_.opset_import()) {
        const bool same = IsStandardDomain(wanted.domain()) ? IsStandardDomain(known.domain())
                                                            : wanted.domain() == known.domain();
        if (!same || wanted.version() == known.version()) continue;
        return "of operator set " + std::to_string(wanted.version()) + " in a model of " +
               std::to_string(known.version());
      }
    }
    return {};
  }

  void Rewrite(Nodes* nodes) {
    Nodes result;
    for (onnx::NodeProto& node : *nodes) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) Rewrite(attribute.mutable_g()->mutable_node());
        for (onnx::GraphProto& body : *attribute.mutable_graphs()) Rewrite(body.mutable_node());
      }
      const Key key = KeyOf(node);
      if (!with_layers_.contains(key) || problems_.contains(key)) {
        *result.Add() = std::move(node);
        continue;
      }
      if (++calls_ > kMostCalls) {
        throw ModelError("the model's functions call each other more than " +
                             std::to_string(kMostCalls) + " times",
                         "export the model without functions");
      }
      const onnx::FunctionProto& function = *functions_.at(key);
      for (const onnx::OperatorSetIdProto& opset : function.opset_import()) {
        SetOpset(&model_, opset.domain(), opset.version());
      }
      Nodes body = Expansion(function, node, &names_).Run();
      Rewrite(&body);
      for (onnx::NodeProto& inner : body) *result.Add() = std::move(inner);
    }
    nodes->Swap(&result);
  }

  void RemoveUncalled() {
    std::set<Key> called;
    const auto mark = [&](const auto& self, const Nodes& nodes) -> void {
      ForEachNode(nodes, [&](const onnx::NodeProto& node) {
        const auto function = functions_.find(KeyOf(node));
        if (function == functions_.end() || !called.insert(function->first).second) return;
        self(self, function->second->node());
      });
    };
    mark(mark, model_.graph().node());
    google::protobuf::RepeatedPtrField<onnx::FunctionProto> left;
    for (onnx::FunctionProto& function : *model_.mutable_functions()) {
      const Key key{function.domain(), function.name()};
      if (with_layers_.contains(key) && !called.contains(key)) continue;
      *left.Add() = std::move(function);
    }
    model_.mutable_functions()->Swap(&left);
  }

  onnx::ModelProto& model_;
  std::map<Key, const onnx::FunctionProto*> functions_;
  std::map<Key, bool> holds_;
  std::set<Key> with_layers_;
  int calls_ = 0;
  FunctionProblems problems_;
  UniqueNames names_;
};

}  // namespace

bool IsLayerOperator(std::string_view op) {
  return std::find(kLayerOperators.begin(), kLayerOperators.end(), op) != kLayerOperators.end();
}

FunctionProblems InlineFunctions(onnx::ModelProto* model) { return Inliner(model).Run(); }

}  // namespace hif8
