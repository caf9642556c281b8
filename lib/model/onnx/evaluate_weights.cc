// Weights that are constant but have to be computed.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lib/core/error.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/runnable.h"
#include "lib/model/onnx/types.h"
#include "lib/model/onnx/unique_names.h"
#include "lib/model/onnx/uses.h"

namespace hif8 {
namespace {

// The part of a model that computes some of its constants, as a graph of its own.
class ConstantGraph {
 public:
  explicit ConstantGraph(const OnnxModel::Impl& model) : scopes_(*model.scopes) {
    result_.set_ir_version(std::max<int64_t>(model.proto.ir_version(), 4));
    *result_.mutable_opset_import() = model.proto.opset_import();
    *result_.mutable_functions() = model.proto.functions();
    result_.mutable_graph()->set_name("constants");
  }

  void AddOutput(int scope, const std::string& name) {
    Add(scope, name);
    result_.mutable_graph()->add_output()->set_name(name);
  }
  onnx::ModelProto& result() { return result_; }
  // The innermost graph that holds any of its stored numbers (positions and shapes aside).
  int scope() const { return scope_; }
  // Number of elements of all stored tensors in it.
  uint64_t stored_elements() const { return stored_elements_; }

 private:
  void Add(int scope, const std::string& name) {
    if (name.empty()) return;
    const Definition at = scopes_.Find(scope, name);
    if (!added_.emplace(at.scope, name).second) return;
    if (at.kind == Definition::Kind::kInitializer) {
      const onnx::TensorProto& tensor = scopes_.Initializer(at);
      *result_.mutable_graph()->add_initializer() = tensor;
      stored_elements_ += ElementCount(TensorShape(tensor));
      DType dtype;
      if (ToDType(tensor.data_type(), &dtype) && IsFloat(dtype)) {
        scope_ = std::max(scope_, at.scope);  // outer graphs have smaller numbers
      }
      return;
    }
    const onnx::NodeProto& node = scopes_.Node(at);
    for (const std::string& output : node.output()) added_.emplace(at.scope, output);
    for (const std::string& input : node.input()) Add(at.scope, input);
    *result_.mutable_graph()->add_node() = node;
  }

  const Scopes& scopes_;
  onnx::ModelProto result_;
  std::set<std::pair<int, std::string>> added_;
  uint64_t stored_elements_ = 0;
  int scope_ = 0;
};

// Removes nodes and initializers that nothing reads any more, in the scopes of constants that were
// replaced. Only what came before a replaced value can be left over.
void RemoveUnused(onnx::ModelProto* model, const std::set<std::string>& candidates) {
  for (bool again = true; again;) {
    again = false;
    const Scopes scopes(model->mutable_graph());
    const Uses uses(scopes);
    for (int scope = 0; scope < static_cast<int>(scopes.size()); ++scope) {
      onnx::GraphProto* graph = scopes[scope].graph;
      const auto unused = [&](const std::string& name) {
        return candidates.contains(name) && uses.Of(scope, name).empty();
      };
      auto* nodes = graph->mutable_node();
      const int count = nodes->size() + graph->initializer_size();
      nodes->erase(std::remove_if(nodes->begin(), nodes->end(),
                                  [&](const onnx::NodeProto& node) {
                                    return node.output_size() > 0 &&
                                           std::all_of(node.output().begin(), node.output().end(),
                                                       unused);
                                  }),
                   nodes->end());
      auto* tensors = graph->mutable_initializer();
      tensors->erase(
          std::remove_if(tensors->begin(), tensors->end(),
                         [&](const onnx::TensorProto& tensor) { return unused(tensor.name()); }),
          tensors->end());
      again = again || nodes->size() + graph->initializer_size() != count;
      if (again) break;  // the maps point to what has moved
    }
  }
}

// A value that was computed.
struct Computed {
  Definition at;
  std::string name;
  int scope = 0;  // where it could be stored
  onnx::TensorProto tensor;
};

// Puts the values in the place of the nodes that compute them.
class Replacer {
 public:
  explicit Replacer(onnx::ModelProto* model, const Scopes& scopes) : scopes_(scopes) {
    names_.ReserveAll(model->graph());
  }

  // Adds the names that are left over to `unused`.
  void Replace(const Computed& computed, std::set<std::string>* unused) {
    onnx::GraphProto* graph = scopes_[computed.at.scope].graph;
    onnx::NodeProto* node = graph->mutable_node(computed.at.index);
    if (computed.scope != computed.at.scope && node->output_size() == 1) {
      // Branches that compute the same from an outer graph's tensors share one.
      onnx::NodeProto identity = MakeNode("Identity", {Share(computed)}, {computed.name});
      identity.set_name(node->name());
      *node = std::move(identity);
      return;
    }
    for (std::string& output : *node->mutable_output()) {
      if (output != computed.name) continue;
      output = names_.Make(computed.name + "_computed");
      unused->insert(output);
    }
    *graph->add_initializer() = computed.tensor;
    graph->mutable_initializer(graph->initializer_size() - 1)->set_name(computed.name);
  }

 private:
  // The name of the tensor in the scope where it is stored.
  std::string Share(const Computed& computed) {
    std::string& name = shared_[{computed.scope, computed.tensor.SerializeAsString()}];
    if (!name.empty()) return name;
    name = names_.Make(computed.name + "_shared");
    onnx::TensorProto* tensor = scopes_[computed.scope].graph->add_initializer();
    *tensor = computed.tensor;
    tensor->set_name(name);
    return name;
  }

  const Scopes& scopes_;
  UniqueNames names_;
  std::map<std::pair<int, std::string>, std::string> shared_;  // by scope and contents
};

// The tensor without a name, in the type that the model declares.
onnx::TensorProto ToProto(const Tensor& values, DType dtype) {
  if (values.view.dtype == dtype) {
    return MakeTensor("", values.view.shape, dtype, values.view.data);
  }
  std::vector<float> buffer;  // bf16 is computed in fp32
  const std::span<const float> floats = AsFloats(values.view, &buffer);
  std::vector<std::byte> bytes(floats.size() * DTypeSize(dtype));
  ConvertFromFloat(dtype, floats.data(), floats.size(), bytes.data());
  return MakeTensor("", values.view.shape, dtype, bytes.data());
}

// Runs the part of the model that makes the value; nothing when that does not give a weight.
std::optional<Computed> Compute(const ConstantEvaluator& evaluate, const OnnxModel::Impl& model,
                                const Definition& at, const std::string& name,
                                std::set<std::string>* inside, LogSink& log) {
  ConstantGraph graph(model);
  graph.AddOutput(at.scope, name);
  Tensor value;
  try {
    std::vector<Tensor> values = evaluate(PackGraph(model.files, graph.result()));
    if (values.size() != 1 || !IsFloat(values[0].view.dtype)) return std::nullopt;
    value = std::move(values[0]);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kModel) throw;
    log.Debug("weight '" + name + "' could not be computed: " + error.message());
    return std::nullopt;
  }
  // A tensor made of next to nothing (a filled one) is better left to the graph.
  if (value.view.size() > 2 * graph.stored_elements()) return std::nullopt;
  DType dtype = value.view.dtype;
  ToDType(ElementTypes(*model.scopes).Find(at.scope, name), &dtype);
  for (const onnx::NodeProto& node : graph.result().graph().node()) {
    inside->insert(node.output().begin(), node.output().end());
  }
  for (const onnx::TensorProto& tensor : graph.result().graph().initializer()) {
    inside->insert(tensor.name());
  }
  return Computed{at, name, graph.scope(), ToProto(value, dtype)};
}

}  // namespace

bool EvaluateWeights(const ConstantEvaluator& evaluate, OnnxModel::Impl* model, LogSink& log) {
  std::map<std::pair<int, std::string>, Definition> wanted;
  for (const LayerSite& site : model->layer_sites) {
    if (site.evaluable.empty()) continue;
    const Definition at = model->scopes->Find(site.scope, site.evaluable);
    wanted.emplace(std::pair(at.scope, site.evaluable), at);
  }
  std::vector<Computed> found;
  std::set<std::string> inside;  // names of values that may be left over
  for (const auto& [key, at] : wanted) {
    std::optional<Computed> computed = Compute(evaluate, *model, at, key.second, &inside, log);
    if (computed) found.push_back(std::move(*computed));
  }
  if (found.empty()) return false;
  for (const Computed& computed : found) inside.erase(computed.name);
  Replacer replacer(&model->proto, *model->scopes);
  for (const Computed& computed : found) replacer.Replace(computed, &inside);
  RemoveUnused(&model->proto, inside);
  model->scopes = std::make_unique<Scopes>(model->proto.mutable_graph());
  model->layers.clear();
  model->layer_sites.clear();
  model->weights.clear();
  model->weight_sites.clear();
  model->activations.clear();
  model->activation_sites.clear();
  return true;
}

}  // namespace hif8
