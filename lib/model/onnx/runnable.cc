#include "lib/model/onnx/runnable.h"

#include <limits>
#include <set>

#include "lib/core/error.h"
#include "lib/model/onnx/tensor_data.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

template <typename Visit>
void ForEachTensor(onnx::GraphProto* graph, const Visit& visit) {
  for (onnx::TensorProto& tensor : *graph->mutable_initializer()) visit(&tensor);
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) visit(attribute.mutable_t());
      if (attribute.has_g()) ForEachTensor(attribute.mutable_g(), visit);
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) ForEachTensor(&body, visit);
    }
  }
}

fs::path CommonFolder(const std::set<fs::path>& files) {
  fs::path common;
  for (const fs::path& file : files) {
    const fs::path folder = file.parent_path();
    if (common.empty()) {
      common = folder;
      continue;
    }
    fs::path shared;
    for (auto a = common.begin(), b = folder.begin();
         a != common.end() && b != folder.end() && *a == *b; ++a, ++b) {
      shared /= *a;
    }
    common = shared;
  }
  return common;
}

// References relative to one folder, which is returned; empty when nothing is external.
fs::path GatherExternalFiles(const DataFiles& files, onnx::ModelProto* model) {
  std::set<fs::path> used;
  ForEachTensor(model->mutable_graph(), [&](onnx::TensorProto* tensor) {
    if (!IsExternal(*tensor)) return;
    MakeReferenceAbsolute(files, tensor);
    used.insert(ParseExternalReference(*tensor).location);
  });
  const fs::path folder = CommonFolder(used);
  if (used.empty()) return folder;
  ForEachTensor(model->mutable_graph(), [&](onnx::TensorProto* tensor) {
    if (!IsExternal(*tensor)) return;
    for (onnx::StringStringEntryProto& entry : *tensor->mutable_external_data()) {
      if (entry.key() != "location") continue;
      entry.set_value(fs::path(entry.value()).lexically_relative(folder).string());
    }
  });
  return folder;
}

// As inputs they would not be constant, and the engine would fold and pack nothing.
void DropInitializersFromInputs(onnx::ModelProto* model) {
  if (model->ir_version() < 4) return;
  onnx::GraphProto* graph = model->mutable_graph();
  std::set<std::string> initializers;
  for (const onnx::TensorProto& tensor : graph->initializer()) initializers.insert(tensor.name());
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
  for (onnx::ValueInfoProto& input : *graph->mutable_input()) {
    if (!initializers.contains(input.name())) *inputs.Add() = std::move(input);
  }
  graph->mutable_input()->Swap(&inputs);
}

}  // namespace

void MakeReferenceAbsolute(const DataFiles& files, onnx::TensorProto* tensor) {
  if (!IsExternal(*tensor)) return;
  for (onnx::StringStringEntryProto& entry : *tensor->mutable_external_data()) {
    if (entry.key() != "location" || fs::path(entry.value()).is_absolute()) continue;
    entry.set_value(files.Resolve(entry.value(), tensor->name()).string());
  }
}

RunnableGraph PackGraph(const DataFiles& files, onnx::ModelProto model) {
  ComputeBf16InFloat(&model);
  RunnableGraph graph;
  graph.data_dir = GatherExternalFiles(files, &model);
  DropInitializersFromInputs(&model);
  SetOpset(&model, std::string(kTapDomain), 1);
  if (model.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw ModelError("the graph without its large tensors is larger than 2 GB",
                     "export the model in smaller pieces");
  }
  if (!model.SerializeToString(&graph.model))
    throw ModelError("the model cannot be serialized", "check it with onnx.checker.check_model");
  return graph;
}

RunnableGraph MakeRunnable(const OnnxModel::Impl& original, onnx::ModelProto model) {
  if (!original.not_runnable.empty()) {
    throw ModelError("the model cannot be run on data: its input " + original.not_runnable,
                     "inputs must be tensors of numbers", original.path.string());
  }
  RunnableGraph graph = PackGraph(original.files, std::move(model));
  graph.inputs = original.inputs;
  graph.outputs = original.outputs;
  for (auto* values : {&graph.inputs, &graph.outputs}) {
    for (GraphValue& value : *values) {
      if (value.dtype == DType::kBF16) value.dtype = DType::kF32;
    }
  }
  return graph;
}

}  // namespace hif8
