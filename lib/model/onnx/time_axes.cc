#include "lib/model/onnx/time_axes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "lib/model/onnx/tensor_data.h"

namespace hif8 {
namespace {

using Kind = Definition::Kind;

bool IsRecurrent(const onnx::NodeProto& node) {
  return IsStandardOp(node, "LSTM") || IsStandardOp(node, "GRU") || IsStandardOp(node, "RNN");
}

// The dimension of time in a recurrent operator's input [time, batch, inputs], or with the batch
// before it.
int TimeAxis(const onnx::NodeProto& node) { return IntAttribute(node, "layout", 0) == 0 ? 0 : 1; }

// Operators whose result's dimensions are those of their inputs of the same rank, if none is
// changed by name (an axis that is split or joined is another dimension afterwards).
bool KeepsDimensions(const std::string& op) {
  static const std::set<std::string_view> kOps = {"Abs",
                                                  "Add",
                                                  "BatchNormalization",
                                                  "Cast",
                                                  "Clip",
                                                  "Div",
                                                  "Dropout",
                                                  "Elu",
                                                  "Erf",
                                                  "Exp",
                                                  "Gelu",
                                                  "HardSigmoid",
                                                  "HardSwish",
                                                  "Identity",
                                                  "LayerNormalization",
                                                  "LeakyRelu",
                                                  "Log",
                                                  "Mul",
                                                  "Neg",
                                                  "PRelu",
                                                  "Pow",
                                                  "QuantizeLinear",
                                                  "DequantizeLinear",
                                                  "Relu",
                                                  "Selu",
                                                  "Sigmoid",
                                                  "Softmax",
                                                  "Softplus",
                                                  "Sqrt",
                                                  "Sub",
                                                  "Tanh"};
  return kOps.contains(op);
}

class Tracer {
 public:
  Tracer(const Scopes& scopes, const DataFiles& files) : scopes_(scopes), files_(files) {}

  // Follows dimension `axis` of a value to the model's inputs, as far as it is the first there.
  void Trace(int scope, const std::string& name, int axis) {
    if (name.empty()) return;
    work_.emplace_back(scope, name, axis);
    while (!work_.empty()) {
      const auto [at_scope, value, at_axis] = work_.back();
      work_.pop_back();
      Step(at_scope, value, at_axis);
    }
  }
  std::unordered_set<std::string> found() && { return std::move(found_); }

 private:
  void Step(int scope, const std::string& name, int axis) {
    const Definition made = scopes_.Find(scope, name);
    if (!seen_.emplace(made.scope, name, axis).second) return;
    if (made.kind == Kind::kInput) {
      // A body of If has no inputs; those of Loop and Scan are slices or states.
      if (made.scope == 0 && axis == 0) found_.insert(name);
      return;
    }
    if (made.kind != Kind::kNode) return;
    const onnx::NodeProto& node = scopes_.Node(made);
    if (!IsStandardDomain(node.domain())) return;
    const std::string& op = node.op_type();
    const auto follow = [&](int input, std::optional<int> from) {
      if (from && !InputName(node, input).empty()) {
        work_.emplace_back(made.scope, InputName(node, input), *from);
      }
    };
    if (IsRecurrent(node)) {
      // Y is [time, directions, batch, hidden], or [batch, time, directions, hidden].
      if (node.output(0) == name && axis == TimeAxis(node)) follow(0, axis);
    } else if (KeepsDimensions(op)) {
      follow(0, axis);
      if (node.input_size() == 2 && op != "DequantizeLinear") follow(1, axis);
    } else if (op == "Transpose") {
      follow(0, BeforeTranspose(node, axis));
    } else if (op == "Squeeze" || op == "Unsqueeze") {
      follow(0, BeforeSqueeze(made.scope, node, axis));
    } else if (op == "Gather") {
      // A look-up: the indices' dimensions stand in the place of the table's first one.
      if (IntAttribute(node, "axis", 0) == 0) follow(1, axis);
    } else if (op == "MatMul" || op == "Conv" || op == "Concat" || op == "Pad") {
      const bool kept = op == "Concat" ? IntAttribute(node, "axis", 0) != axis : axis == 0;
      follow(0, kept ? std::optional<int>(axis) : std::nullopt);
    } else if (op == "Reshape") {
      follow(0, BeforeReshape(made.scope, node, axis));
    }
  }

  static std::optional<int> BeforeTranspose(const onnx::NodeProto& node, int axis) {
    const std::vector<int64_t> perm = IntsAttribute(node, "perm");
    if (axis < 0 || axis >= static_cast<int>(perm.size())) return std::nullopt;
    const int64_t from = perm[static_cast<size_t>(axis)];
    return from >= 0 && from < static_cast<int64_t>(perm.size())
               ? std::optional<int>(static_cast<int>(from))
               : std::nullopt;
  }

  // Axes count from the end when they are negative; then the rank would have to be known, and only
  // the first dimension can be told to be none of them.
  std::optional<int> BeforeSqueeze(int scope, const onnx::NodeProto& node, int axis) const {
    const auto axes = Integers(scope, node, 1, "axes");
    if (!axes || axes->empty()) return std::nullopt;
    const bool squeeze = node.op_type() == "Squeeze";
    if (std::ranges::any_of(*axes, [](int64_t a) { return a < 0; }) && axis != 0) {
      return std::nullopt;
    }
    int from = axis;
    std::vector<int64_t> sorted = *axes;
    std::ranges::sort(sorted);
    for (const int64_t removed : sorted) {
      if (removed < 0) continue;
      if (squeeze && removed <= from) ++from;
      if (!squeeze && removed == axis) return std::nullopt;
      if (!squeeze && removed < axis) --from;
    }
    return from;
  }

  std::optional<int> BeforeReshape(int scope, const onnx::NodeProto& node, int axis) const {
    const auto shape = Integers(scope, node, 1, "shape");
    if (!shape || IntAttribute(node, "allowzero", 0) != 0) return std::nullopt;
    const bool copied = axis >= 0 && axis < static_cast<int>(shape->size()) &&
                        (*shape)[static_cast<size_t>(axis)] == 0;
    return copied ? std::optional<int>(axis) : std::nullopt;
  }

  std::optional<std::vector<int64_t>> Integers(int scope, const onnx::NodeProto& node, int input,
                                               std::string_view attribute) const {
    if (InputName(node, input).empty()) return IntsAttribute(node, attribute);
    const onnx::TensorProto* tensor = scopes_.FindConstant(scope, InputName(node, input));
    return tensor != nullptr ? ReadInts(*tensor, files_) : std::nullopt;
  }

  const Scopes& scopes_;
  const DataFiles& files_;
  std::vector<std::tuple<int, std::string, int>> work_;
  std::set<std::tuple<int, std::string, int>> seen_;
  std::unordered_set<std::string> found_;
};

}  // namespace

std::unordered_set<std::string> FindTimeFirstInputs(const Scopes& scopes, const DataFiles& files) {
  Tracer tracer(scopes, files);
  for (int scope = 0; scope < static_cast<int>(scopes.size()); ++scope) {
    for (const onnx::NodeProto& node : scopes[scope].graph->node()) {
      if (IsRecurrent(node)) tracer.Trace(scope, InputName(node, 0), TimeAxis(node));
    }
  }
  return std::move(tracer).found();
}

}  // namespace hif8
