#include "lib/model/onnx/plain_operators.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lib/model/onnx/function_set.h"
#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/unique_names.h"

namespace hif8 {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Key = std::pair<std::string, std::string>;  // domain and name

constexpr std::string_view kConstantName = "hif8_constant";

// What the description of an expanded call's last node holds.
struct Call {
  std::string domain;
  std::string name;
  std::vector<std::string> inputs;
  std::string description;  // of the call itself
};

// One item a line behind a first line that says what this is.
constexpr std::string_view kCallMark = "expanded call of ";

std::string CallText(const onnx::NodeProto& call) {
  std::string text = std::string(kCallMark) + call.domain() + " " + call.op_type() + " " +
                     std::to_string(call.input_size()) + "\n";
  for (const std::string& input : call.input()) text += input + "\n";
  return text + call.doc_string();
}

// The text up to `end`, which is cut off together with it; nothing if there is no such character.
std::optional<std::string> CutOff(std::string_view* text, char end) {
  const size_t at = text->find(end);
  if (at == std::string_view::npos) return std::nullopt;
  std::string part(text->substr(0, at));
  text->remove_prefix(at + 1);
  return part;
}

std::optional<Call> ParseCall(std::string_view text) {
  if (!text.starts_with(kCallMark)) return std::nullopt;
  text.remove_prefix(kCallMark.size());
  const auto domain = CutOff(&text, ' ');
  const auto name = CutOff(&text, ' ');
  const auto count = CutOff(&text, '\n');
  constexpr size_t kMostInputs = 9;  // one digit
  if (!domain || !name || !count || count->size() != 1 || FormatOfDomain(*domain).empty()) {
    return std::nullopt;
  }
  Call call{*domain, *name, {}, {}};
  const auto inputs = static_cast<size_t>((*count)[0] - '0');
  if (inputs > kMostInputs) return std::nullopt;
  for (size_t i = 0; i < inputs; ++i) {
    auto input = CutOff(&text, '\n');
    if (!input) return std::nullopt;
    call.inputs.push_back(std::move(*input));
  }
  call.description = text;
  return call;
}

class Expander {
 public:
  explicit Expander(onnx::ModelProto* model) : model_(*model) {
    for (const onnx::FunctionProto& function : model_.functions()) {
      if (FormatOfDomain(function.domain()).empty()) continue;
      functions_[{function.domain(), function.name()}] = &function;
    }
    names_.ReserveAll(model_.graph());
  }

  void Run() {
    Rewrite(model_.mutable_graph()->mutable_node());
    auto* functions = model_.mutable_functions();
    functions->erase(
        std::remove_if(functions->begin(), functions->end(),
                       [](const auto& f) { return !FormatOfDomain(f.domain()).empty(); }),
        functions->end());
    auto* opsets = model_.mutable_opset_import();
    opsets->erase(std::remove_if(opsets->begin(), opsets->end(),
                                 [](const auto& o) { return !FormatOfDomain(o.domain()).empty(); }),
                  opsets->end());
  }

 private:
  void Rewrite(Nodes* nodes) {
    Nodes result;
    for (onnx::NodeProto& node : *nodes) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) Rewrite(attribute.mutable_g()->mutable_node());
        for (onnx::GraphProto& body : *attribute.mutable_graphs()) Rewrite(body.mutable_node());
      }
      const auto function = functions_.find({node.domain(), node.op_type()});
      if (function == functions_.end()) {
        *result.Add() = std::move(node);
      } else {
        Expand(*function->second, node, &result);
      }
    }
    nodes->Swap(&result);
  }

  void Expand(const onnx::FunctionProto& function, const onnx::NodeProto& call, Nodes* nodes) {
    std::map<std::string, std::string> renamed = {{function.output(0), call.output(0)}};
    for (int i = 0; i < function.input_size(); ++i) renamed[function.input(i)] = call.input(i);
    for (const onnx::NodeProto& original : function.node()) {
      std::string* output = &renamed[original.output(0)];
      if (original.op_type() == "Constant") {
        *output = Constant(original.attribute(0).t());
        continue;
      }
      if (output->empty()) *output = names_.Make(call.output(0) + "/" + original.output(0));
      onnx::NodeProto node = original;
      node.set_name(names_.Make(call.output(0) + "/" + original.op_type()));
      for (std::string& input : *node.mutable_input()) input = renamed.at(input);
      node.set_output(0, *output);
      if (*output == call.output(0)) node.set_doc_string(CallText(call));
      *nodes->Add() = std::move(node);
    }
  }

  // Graphs inside of nodes see what the main graph has.
  std::string Constant(const onnx::TensorProto& value) {
    std::string& name = constants_[value.SerializeAsString()];
    if (name.empty()) {
      name = names_.Make(std::string(kConstantName));
      onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
      tensor = value;
      tensor.set_name(name);
    }
    return name;
  }

  onnx::ModelProto& model_;
  std::map<Key, const onnx::FunctionProto*> functions_;
  std::map<std::string, std::string> constants_;  // names by serialized values
  UniqueNames names_;
};

class Folder {
 public:
  explicit Folder(onnx::ModelProto* model) : model_(*model) {
    for (const onnx::TensorProto& tensor : model_.graph().initializer()) {
      if (tensor.name().starts_with(kConstantName)) constants_[tensor.name()] = &tensor;
    }
  }

  void Run() {
    if (constants_.empty()) return;
    Rewrite(model_.mutable_graph()->mutable_node());
    if (functions_.empty()) return;
    for (auto& [key, function] : functions_) {
      SetOpset(&model_, key.first, kFunctionVersion);
      *model_.add_functions() = std::move(function);
    }
    model_.set_ir_version(std::max<int64_t>(model_.ir_version(), kFunctionsIr));
    RemoveConstants();
  }

 private:
  // The nodes of one graph by what they make, and who reads it, counted.
  struct Graph {
    const Nodes& nodes;
    std::map<std::string, int> makers;
    std::map<std::string, int> reads;
  };

  void Rewrite(Nodes* nodes) {
    Graph graph{*nodes, {}, {}};
    for (int i = 0; i < nodes->size(); ++i) {
      onnx::NodeProto& node = *nodes->Mutable(i);
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) Rewrite(attribute.mutable_g()->mutable_node());
        for (onnx::GraphProto& body : *attribute.mutable_graphs()) Rewrite(body.mutable_node());
      }
      for (const std::string& output : node.output()) graph.makers[output] = i;
      for (const std::string& input : node.input()) ++graph.reads[input];
    }
    std::set<int> folded;
    std::map<int, onnx::NodeProto> calls;  // by the last node
    for (int i = 0; i < nodes->size(); ++i) {
      const std::optional<Call> call = ParseCall(nodes->Get(i).doc_string());
      if (!call) continue;
      const std::optional<std::set<int>> parts = Parts(graph, i, *call);
      if (!parts || !AddFunction(graph, *parts, *call)) continue;
      folded.insert(parts->begin(), parts->end());
      onnx::NodeProto node =
          MakeNode(call->name, call->inputs, {nodes->Get(i).output(0)}, call->domain);
      if (!call->description.empty()) node.set_doc_string(call->description);
      calls[i] = std::move(node);
    }
    Nodes result;
    for (int i = 0; i < nodes->size(); ++i) {
      if (const auto call = calls.find(i); call != calls.end()) {
        *result.Add() = std::move(call->second);
      } else if (!folded.contains(i)) {
        *result.Add() = std::move(*nodes->Mutable(i));
      }
    }
    nodes->Swap(&result);
  }

  // The nodes between the call's inputs and its last node, if nobody else reads what they make.
  std::optional<std::set<int>> Parts(const Graph& graph, int last, const Call& call) const {
    std::set<int> parts = {last};
    std::map<std::string, int> read;  // values between, by how often these nodes read them
    std::vector<int> waiting = {last};
    while (!waiting.empty()) {
      const onnx::NodeProto& node = graph.nodes[waiting.back()];
      waiting.pop_back();
      if (node.output_size() != 1 || !IsStandardDomain(node.domain())) return std::nullopt;
      for (const std::string& input : node.input()) {
        if (constants_.contains(input) || std::ranges::count(call.inputs, input) > 0) continue;
        const auto maker = graph.makers.find(input);
        if (maker == graph.makers.end()) return std::nullopt;
        ++read[input];
        if (parts.insert(maker->second).second) waiting.push_back(maker->second);
      }
    }
    const bool alone = std::ranges::all_of(
        read, [&](const auto& value) { return graph.reads.at(value.first) == value.second; });
    return alone ? std::optional(parts) : std::nullopt;
  }

  // Makes the nodes a function. Returns false when an equal call is another function already.
  bool AddFunction(const Graph& graph, const std::set<int>& parts, const Call& call) {
    onnx::FunctionProto function;
    function.set_domain(call.domain);
    function.set_name(call.name);
    onnx::OperatorSetIdProto* import = function.add_opset_import();
    import->set_domain("");
    import->set_version(StandardOpset(model_));
    std::map<std::string, std::string> renamed;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      renamed.emplace(call.inputs[i], "x" + std::to_string(i));
      function.add_input("x" + std::to_string(i));
    }
    for (const int part : parts) {
      onnx::NodeProto node = graph.nodes[part];
      for (std::string& input : *node.mutable_input()) {
        std::string& inside = renamed[input];
        if (inside.empty()) inside = AddConstant(input, &function);
        input = inside;
      }
      std::string& output = renamed[node.output(0)];
      output = "v" + std::to_string(function.node_size());
      node.set_output(0, output);
      node.clear_name();
      node.clear_doc_string();
      *function.add_node() = std::move(node);
    }
    function.add_output(function.node(function.node_size() - 1).output(0));
    const auto [known, added] = functions_.emplace(Key(call.domain, call.name), function);
    return added || known->second.SerializeAsString() == function.SerializeAsString();
  }

  std::string AddConstant(const std::string& name, onnx::FunctionProto* function) const {
    const std::string inside = "v" + std::to_string(function->node_size());
    onnx::NodeProto& node = *function->add_node();
    node = MakeNode("Constant", {}, {inside});
    onnx::AttributeProto& value = *node.add_attribute();
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    *value.mutable_t() = *constants_.at(name);
    value.mutable_t()->clear_name();
    return inside;
  }

  // Those that nobody reads any more.
  void RemoveConstants() {
    std::set<std::string> read;
    CountReads(model_.graph(), &read);
    auto* tensors = model_.mutable_graph()->mutable_initializer();
    tensors->erase(std::remove_if(tensors->begin(), tensors->end(),
                                  [&](const onnx::TensorProto& tensor) {
                                    return tensor.name().starts_with(kConstantName) &&
                                           !read.contains(tensor.name());
                                  }),
                   tensors->end());
  }

  static void CountReads(const onnx::GraphProto& graph, std::set<std::string>* read) {
    for (const onnx::ValueInfoProto& output : graph.output()) read->insert(output.name());
    for (const onnx::NodeProto& node : graph.node()) {
      read->insert(node.input().begin(), node.input().end());
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) CountReads(attribute.g(), read);
        for (const onnx::GraphProto& body : attribute.graphs()) CountReads(body, read);
      }
    }
  }

  onnx::ModelProto& model_;
  std::map<std::string, const onnx::TensorProto*> constants_;
  std::map<Key, onnx::FunctionProto> functions_;
};

}  // namespace

void ExpandFormatFunctions(onnx::ModelProto* model) { Expander(model).Run(); }

void FoldPlainOperators(onnx::ModelProto* model) { Folder(model).Run(); }

}  // namespace hif8
