#include "lib/model/onnx/import.h"

#include <algorithm>
#include <cstring>

#include "lib/model/onnx/runnable.h"
#include "lib/model/onnx/tensor_data.h"

namespace hif8 {

using Kind = Definition::Kind;

Importer::Importer(const OnnxModel::Impl& original, const OnnxModel::Impl& written, GraphEdit* edit)
    : original_(original), written_(written), edit_(*edit) {}

bool Importer::IsSameTensor(const onnx::TensorProto& a, const onnx::TensorProto& b) const {
  if (a.data_type() != b.data_type() || TensorShape(a) != TensorShape(b)) return false;
  DType dtype;
  if (!ToDType(a.data_type(), &dtype)) return true;  // never quantized
  const Tensor x = ReadTensor(a, original_.files);
  const Tensor y = ReadTensor(b, written_.files);
  return std::memcmp(x.view.data, y.view.data, x.view.bytes()) == 0;
}

bool Importer::IsSame(int scope, const std::string& name) const {
  const Definition ours = original_.scopes->Find(scope, name);
  const Definition theirs = written_.scopes->Find(scope, name);
  if (ours.kind == Kind::kNone || ours.kind != theirs.kind) return false;
  if (ours.kind == Kind::kInitializer) {
    return IsSameTensor(original_.scopes->Initializer(ours), written_.scopes->Initializer(theirs));
  }
  if (ours.kind == Kind::kInput) return true;
  const onnx::NodeProto& node = original_.scopes->Node(ours);
  const ConstantOperand constant = TraceConstant(*original_.scopes, original_.files, scope, name);
  if (constant.kind == ConstantOperand::Kind::kVariable) return true;
  return std::all_of(node.input().begin(), node.input().end(), [&](const std::string& input) {
    return input.empty() || IsSame(ours.scope, input);
  });
}

std::string Importer::Import(int scope, const std::string& name, int before) {
  if (name.empty()) return name;
  const Definition at = written_.scopes->Find(scope, name);
  const auto key = std::pair(at.scope, name);
  if (const auto it = imported_.find(key); it != imported_.end()) return it->second;
  std::string result = name;
  if (!IsSame(scope, name)) {
    result = at.kind == Kind::kInitializer ? ImportTensor(at)
                                           : ImportNode(at, name, at.scope == scope ? before : 0);
  }
  imported_[key] = result;
  return result;
}

std::string Importer::ImportTensor(const Definition& at) {
  onnx::TensorProto tensor = written_.scopes->Initializer(at);
  MakeReferenceAbsolute(written_.files, &tensor);
  tensor.set_name(edit_.NewName(tensor.name()));
  return edit_.AddInitializer(at.scope, std::move(tensor))->name();
}

std::string Importer::ImportNode(const Definition& at, const std::string& name, int before) {
  onnx::NodeProto node = written_.scopes->Node(at);
  for (std::string& input : *node.mutable_input()) input = Import(at.scope, input, before);
  std::string result;
  for (std::string& output : *node.mutable_output()) {
    if (output.empty()) continue;
    const bool asked = output == name;
    output = edit_.NewName(output);
    if (asked) result = output;
  }
  node.clear_name();
  edit_.InsertBefore(at.scope, before, std::move(node));
  return result;
}

void Importer::ImportFunctions() {
  onnx::ModelProto& model = edit_.model();
  // The written model has the original's functions and its own.
  *model.mutable_functions() = written_.proto.functions();
  for (const onnx::OperatorSetIdProto& opset : written_.proto.opset_import()) {
    SetOpset(&model, opset.domain(), opset.version());
  }
  model.set_ir_version(written_.proto.ir_version());
}

}  // namespace hif8
