// From a file to an OnnxModel.
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <limits>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/input_file.h"
#include "lib/model/onnx/check_model.h"
#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/opset.h"
#include "lib/model/onnx/plain_operators.h"
#include "lib/model/onnx/raw_data.h"
#include "lib/model/onnx/runnable.h"
#include "lib/model/onnx/sort_nodes.h"
#include "lib/model/onnx/sparse.h"
#include "lib/model/onnx/tensor_data.h"
#include "lib/model/onnx/time_axes.h"
#include "lib/model/onnx/unique_names.h"

namespace hif8 {
namespace {

onnx::ModelProto Parse(const MappedFile& file) {
  const std::string where = file.path().string();
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.empty()) {
    throw ModelError("the model file is empty", "copy or download it again", where);
  }
  RequireNoLfsPointer({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.path());
  constexpr auto kMost = static_cast<size_t>(std::numeric_limits<int>::max());
  if (bytes.size() > kMost) {
    throw ModelError("the model file is larger than 2 GB, which the format does not allow",
                     "save the model with its weights as external data", where);
  }
  onnx::ModelProto proto;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const auto parse = [&](int depth) {
    google::protobuf::io::CodedInputStream stream(data, static_cast<int>(bytes.size()));
    stream.SetRecursionLimit(depth);
    return proto.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
  };
  // ONNX Runtime reads no deeper either.
  constexpr int kDepth = 100, kDeeper = 1000;
  const bool parsed = parse(kDepth);
  if (!parsed && parse(kDeeper)) {
    throw ModelError("graphs are nested too deep: messages lie in each other more than " +
                         std::to_string(kDepth) + " times, which ONNX Runtime does not read",
                     "export the model with fewer nested If, Loop and Scan bodies", where);
  }
  // A model starts with its IR version, a small number.
  const bool looks_like_onnx = bytes.size() > 2 && data[0] == 0x08 && data[1] < 0x40;
  if (!parsed && looks_like_onnx) {
    throw ModelError("the model file is truncated or damaged", "copy or download it again", where);
  }
  if (!parsed || !proto.has_graph() || !proto.has_ir_version()) {
    throw ModelError("the file is not an ONNX model", "a model.onnx file is expected here", where);
  }
  return proto;
}

// Whether the engine loads a model of that version of the standard operators: one that hands a
// number on.
bool RunsOpset(const ConstantEvaluator& evaluate, int64_t opset, const DataFiles& files) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  SetOpset(&model, "", opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("opset");
  *graph.add_initializer() = MakeTensor("x", {1}, std::vector<float>{1});
  *graph.add_node() = MakeNode("Identity", {"x"}, {"y"});
  graph.add_output()->set_name("y");
  try {
    evaluate(PackGraph(files, std::move(model)));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kModel) throw;
    return false;
  }
  return true;
}

// The newest version of the standard operators that a model may have, as far as it matters for one
// of version `wanted`.
int64_t NewestOpset(const ConstantEvaluator& evaluate, int64_t wanted, const DataFiles& files) {
  if (!evaluate) return std::max(wanted, kNewestOpset);
  int64_t newest = kNewestOpset;
  while (newest < wanted && RunsOpset(evaluate, newest + 1, files)) ++newest;
  return newest;
}

// Checks the version of the standard operators and converts old ones. Returns why it could not.
std::string CheckOpset(const ConstantEvaluator& evaluate, OnnxModel::Impl* model) {
  onnx::ModelProto* proto = &model->proto;
  const int64_t opset = StandardOpset(*proto);
  const int64_t newest = NewestOpset(evaluate, opset, model->files);
  std::string problem;
  if (opset > 0 && opset < kFunctionOpset) problem = ConvertToFunctionOpset(proto);
  const bool supported = opset >= kOldestOpset && opset <= newest;
  const bool converted = opset > 0 && opset < kOldestOpset && problem.empty();
  const auto& nodes = proto->graph().node();
  const bool needed = std::any_of(nodes.begin(), nodes.end(), [](const onnx::NodeProto& node) {
    return IsStandardDomain(node.domain());
  });
  if (supported || converted || (opset == 0 && !needed)) return problem;
  throw ModelError(
      (opset == 0 ? std::string("the model names no version of the standard operators")
                  : "the model uses operator set " + std::to_string(opset)) +
          "; versions " + std::to_string(kOldestOpset) + " to " + std::to_string(newest) +
          " are supported" +
          (problem.empty() ? std::string() : ", and it could not be converted: " + problem),
      "export the model again for one of these", model->path.string());
}

bool IsOutput(const onnx::GraphProto& graph, const std::string& name) {
  for (const onnx::ValueInfoProto& output : graph.output()) {
    if (output.name() == name) return true;
  }
  return false;
}

// Constant nodes become initializers, so that there is one kind of constant. Returns whether any
// did.
bool LiftConstants(onnx::GraphProto* graph) {
  google::protobuf::RepeatedPtrField<onnx::NodeProto> kept;
  bool lifted = false;
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) lifted |= LiftConstants(attribute.mutable_g());
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) lifted |= LiftConstants(&body);
    }
    if (IsStandardOp(node, "Constant") && node.output_size() == 1 &&
        !IsOutput(*graph, node.output(0))) {
      std::optional<onnx::TensorProto> tensor = ConstantNodeTensor(node, node.output(0));
      if (tensor && tensor->data_type() != onnx::TensorProto::STRING) {
        *graph->add_initializer() = std::move(*tensor);
        lifted = true;
        continue;
      }
    }
    *kept.Add() = std::move(node);
  }
  graph->mutable_node()->Swap(&kept);
  return lifted;
}

GraphValue ToGraphValue(const onnx::ValueInfoProto& value, std::string* problem) {
  GraphValue result;
  result.name = value.name();
  const onnx::TypeProto& type = value.type();
  if (!type.has_tensor_type() || !ToDType(type.tensor_type().elem_type(), &result.dtype)) {
    const std::string what = type.has_tensor_type()
                                 ? "a tensor of " + OnnxTypeName(type.tensor_type().elem_type())
                                 : std::string("no tensor");
    if (problem->empty()) *problem = "'" + value.name() + "' is " + what;
    result.rank_known = false;
    return result;
  }
  result.rank_known = type.tensor_type().has_shape();
  for (const auto& dim : type.tensor_type().shape().dim()) {
    result.shape.push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1);
    result.dim_names.push_back(dim.dim_param());
  }
  return result;
}

void FindInputsAndOutputs(OnnxModel::Impl* model) {
  const Scope& main = (*model->scopes)[0];
  std::string ignored;
  const std::unordered_set<std::string> time_first =
      FindTimeFirstInputs(*model->scopes, model->files);
  for (const onnx::ValueInfoProto& input : main.graph->input()) {
    if (main.initializers.contains(input.name())) continue;
    model->inputs.push_back(ToGraphValue(input, &model->not_runnable));
    model->inputs.back().time_first = time_first.contains(input.name());
  }
  for (const onnx::ValueInfoProto& output : main.graph->output()) {
    model->outputs.push_back(ToGraphValue(output, &ignored));
  }
}

// Every constant tensor in a fixed order: visit(tensor).
template <typename Visit>
void ForEachConstant(const Scopes& scopes, const Visit& visit) {
  for (int i = 0; i < static_cast<int>(scopes.size()); ++i) {
    for (const onnx::TensorProto& tensor : scopes[i].graph->initializer()) visit(tensor);
  }
}

void CountParameters(OnnxModel::Impl* model) {
  ForEachConstant(*model->scopes, [&](const onnx::TensorProto& tensor) {
    DType dtype;
    if (!ToDType(tensor.data_type(), &dtype) || !IsFloat(dtype)) return;
    model->parameter_count += ElementCount(TensorShape(tensor));
  });
}

}  // namespace

std::unique_ptr<OnnxModel> OnnxModel::Load(const std::filesystem::path& path, LogSink& log,
                                           const OnnxLoadOptions& options) {
  auto impl = std::make_unique<Impl>(path);
  {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    const auto file = MappedFile::Open(error ? path : real);
    impl->proto = Parse(*file);
    ReferToMappedFile(*file, options.map_from_bytes, &impl->proto);
  }
  CheckModel(impl->proto, impl->files);
  MakeSparseTensorsDense(impl->files, &impl->proto);
  SortNodes(impl->proto.mutable_graph());
  impl->stored_opset = StandardOpset(impl->proto);
  impl->not_converted = CheckOpset(options.evaluate, impl.get());
  if (impl->stored_opset != StandardOpset(impl->proto)) {
    log.Info("converted the model from operator set " + std::to_string(impl->stored_opset) +
             " to " + std::to_string(StandardOpset(impl->proto)));
  }
  FoldPlainOperators(&impl->proto);
  impl->function_problems = InlineFunctions(&impl->proto);
  if (LiftConstants(impl->proto.mutable_graph()) && impl->proto.ir_version() < 4) {
    impl->proto.set_ir_version(4);  // initializers that are no inputs
  }
  MakeNodeNamesUnique(impl->proto.mutable_graph());
  impl->scopes = std::make_unique<Scopes>(impl->proto.mutable_graph());
  FindInputsAndOutputs(impl.get());
  FindLayers(impl.get());
  if (options.evaluate && EvaluateWeights(options.evaluate, impl.get(), log)) {
    FindLayers(impl.get());
  }
  CountParameters(impl.get());
  CountMacs(impl.get());
  log.Debug("model " + path.string() + ": operator set " + std::to_string(impl->stored_opset) +
            ", " + std::to_string(impl->layers.size()) + " layers, " +
            std::to_string(impl->parameter_count) + " parameters");
  return std::unique_ptr<OnnxModel>(new OnnxModel(std::move(impl)));
}

OnnxModel::OnnxModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OnnxModel::~OnnxModel() = default;

const std::filesystem::path& OnnxModel::path() const { return impl_->path; }
const std::vector<Layer>& OnnxModel::layers() const { return impl_->layers; }
const std::vector<Weight>& OnnxModel::weights() const { return impl_->weights; }
const std::vector<Activation>& OnnxModel::activations() const { return impl_->activations; }
uint64_t OnnxModel::parameter_count() const { return impl_->parameter_count; }
const std::vector<GraphValue>& OnnxModel::inputs() const { return impl_->inputs; }
const std::vector<GraphValue>& OnnxModel::outputs() const { return impl_->outputs; }
int64_t OnnxModel::opset() const { return StandardOpset(impl_->proto); }
int64_t OnnxModel::stored_opset() const { return impl_->stored_opset; }

Tensor OnnxModel::ReadWeight(int index) const {
  return ReadTensor(impl_->tensor(impl_->weight_sites.at(static_cast<size_t>(index))),
                    impl_->files);
}

Fingerprint OnnxModel::ComputeFingerprint() const {
  Hasher hasher;
  std::vector<std::string> locations;
  ForEachConstant(*impl_->scopes, [&](const onnx::TensorProto& tensor) {
    DType dtype;
    if (!ToDType(tensor.data_type(), &dtype)) return;
    const Tensor values = ReadTensor(tensor, impl_->files);
    hasher.Update(tensor.name() + "\n" + std::string(DTypeName(dtype)) +
                  ShapeText(values.view.shape) + "\n");
    hasher.Update(std::span(values.view.data, values.view.bytes()));
    if (!IsExternal(tensor)) return;
    const std::string location = ParseExternalReference(tensor).location;
    if (std::find(locations.begin(), locations.end(), location) == locations.end()) {
      locations.push_back(location);
    }
  });
  Fingerprint fingerprint;
  const auto add = [&](const std::string& name, const std::filesystem::path& file) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (!fingerprint.files.empty()) fingerprint.files += ", ";
    fingerprint.files += name + " (" + std::to_string(error ? 0 : size) + " bytes)";
    fingerprint.file_bytes += error ? 0 : size;
  };
  add(impl_->path.filename().string(), impl_->path);
  std::error_code error;
  const std::string own = std::filesystem::weakly_canonical(impl_->path, error).filename().string();
  for (const std::string& location : locations) {
    if (location != own) add(location, impl_->files.Resolve(location, {}));
  }
  fingerprint.hash = hasher.Hex();
  return fingerprint;
}

}  // namespace hif8
