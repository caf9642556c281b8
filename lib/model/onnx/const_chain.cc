#include "lib/model/onnx/const_chain.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/model/onnx/tensor_data.h"

namespace hif8 {
namespace {

constexpr int kDeepest = 64;  // chains of constants are short; a longer one is left alone

// What an axis attribute means for a tensor of that rank; nothing when it is out of range.
std::optional<size_t> AxisIndex(int64_t axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(axis);
}

std::optional<std::vector<size_t>> AxisIndices(const std::vector<int64_t>& axes, size_t rank) {
  std::vector<size_t> indices;
  for (const int64_t axis : axes) {
    const std::optional<size_t> index = AxisIndex(axis, rank);
    if (!index) return std::nullopt;
    indices.push_back(*index);
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::optional<Shape> ReshapeResult(const Shape& in, const std::vector<int64_t>& wanted,
                                   bool allow_zero) {
  Shape out = wanted;
  size_t known = 1;
  int free = -1;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == 0 && !allow_zero) {
      if (i >= in.size()) return std::nullopt;
      out[i] = in[i];
    }
    if (out[i] < -1 || (out[i] == -1 && free >= 0)) return std::nullopt;
    if (out[i] == -1) {
      free = static_cast<int>(i);
    } else if (__builtin_mul_overflow(known, static_cast<size_t>(out[i]), &known)) {
      return std::nullopt;
    }
  }
  const size_t total = ElementCount(in);
  if (free >= 0) {
    if (known == 0 || total % known != 0) return std::nullopt;
    out[static_cast<size_t>(free)] = static_cast<int64_t>(total / known);
    return out;
  }
  if (known != total) return std::nullopt;
  return out;
}

// Axes of Squeeze and Unsqueeze: an attribute before opset 13, an input since.
std::optional<std::vector<int64_t>> AxesOf(const Scopes& scopes, const DataFiles& files, int scope,
                                           const onnx::NodeProto& node) {
  if (InputName(node, 1).empty()) return IntsAttribute(node, "axes");
  const onnx::TensorProto* axes = scopes.FindConstant(scope, node.input(1));
  return axes != nullptr ? ReadInts(*axes, files) : std::nullopt;
}

std::optional<Shape> StepShape(const Scopes& scopes, const DataFiles& files, int scope,
                               const onnx::NodeProto& node, const Shape& in) {
  const std::string& op = node.op_type();
  if (op == "Identity" || op == "Cast") return in;
  if (op == "Reshape") {
    const onnx::TensorProto* shape = scopes.FindConstant(scope, InputName(node, 1));
    if (shape == nullptr) return std::nullopt;
    const auto wanted = ReadInts(*shape, files);
    if (!wanted) return std::nullopt;
    return ReshapeResult(in, *wanted, IntAttribute(node, "allowzero", 0) != 0);
  }
  if (op == "Flatten") {
    int64_t axis = IntAttribute(node, "axis", 1);
    if (axis < 0) axis += static_cast<int64_t>(in.size());
    if (axis < 0 || axis > static_cast<int64_t>(in.size())) return std::nullopt;
    const auto middle = in.begin() + axis;
    return Shape{static_cast<int64_t>(ElementCount(Shape(in.begin(), middle))),
                 static_cast<int64_t>(ElementCount(Shape(middle, in.end())))};
  }
  const auto axes = AxesOf(scopes, files, scope, node);
  if (!axes) return std::nullopt;
  if (op == "Unsqueeze") {
    const auto indices = AxisIndices(*axes, in.size() + axes->size());
    if (!indices) return std::nullopt;
    Shape out = in;
    for (const size_t i : *indices) {
      if (i > out.size()) return std::nullopt;
      out.insert(out.begin() + static_cast<std::ptrdiff_t>(i), 1);
    }
    return out;
  }
  const auto indices = AxisIndices(*axes, in.size());
  if (!indices) return std::nullopt;
  Shape out;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool named = std::find(indices->begin(), indices->end(), i) != indices->end();
    if (named && in[i] != 1) return std::nullopt;
    if (!named && !(axes->empty() && in[i] == 1)) out.push_back(in[i]);
  }
  return out;
}

bool MovesElements(const onnx::NodeProto& node) {
  static constexpr std::string_view kOps[] = {"Identity",  "Cast",    "Reshape",  "Flatten",
                                              "Unsqueeze", "Squeeze", "Transpose"};
  return IsStandardDomain(node.domain()) &&
         std::find(std::begin(kOps), std::end(kOps), node.op_type()) != std::end(kOps);
}

// Whether a value depends on constants only, and if so, whether on codes of an earlier
// quantization.
struct Constness {
  bool constant = false;
  bool quantized = false;
};
using KnownConstness = std::map<std::pair<int, std::string>, Constness>;

Constness FindConstness(const Scopes& scopes, int scope, const std::string& name, int depth,
                        KnownConstness* known) {
  const Definition definition = scopes.Find(scope, name);
  if (definition.kind == Definition::Kind::kInitializer) return {true, false};
  if (definition.kind != Definition::Kind::kNode || depth > kDeepest) return {};
  // Each value is looked at once, and one that depends on itself is none.
  const auto [entry, added] = known->emplace(std::pair(definition.scope, name), Constness{});
  if (!added) return entry->second;
  const onnx::NodeProto& node = scopes.Node(definition);
  if (node.op_type() == "Constant") return {true, false};
  if (node.op_type().starts_with("Random") || node.input_size() == 0) return {};
  if (!scopes.Bodies(definition.scope, definition.index).empty()) return {};
  Constness result{true, node.op_type().find("QuantizeLinear") != std::string::npos ||
                             node.op_type() == "DequantizeLinear"};
  for (const std::string& input : node.input()) {
    if (input.empty()) continue;
    const Constness inner = FindConstness(scopes, definition.scope, input, depth + 1, known);
    if (!inner.constant) return {};
    result.quantized = result.quantized || inner.quantized;
  }
  entry->second = result;
  return result;
}

bool AddStep(const Scopes& scopes, const DataFiles& files, const Definition& at,
             ConstantOperand* operand) {
  const onnx::NodeProto& node = scopes.Node(at);
  ChainStep step{at.scope, at.index, {}, {}};
  if (node.op_type() == "Transpose") {
    const std::vector<int64_t> perm = IntsAttribute(node, "perm");
    const size_t rank = operand->shape.size();
    std::vector<bool> seen(rank, false);
    if (!perm.empty() && perm.size() != rank) return false;
    for (size_t i = 0; i < rank; ++i) {
      const auto from =
          AxisIndex(perm.empty() ? static_cast<int64_t>(rank - 1 - i) : perm[i], rank);
      if (!from || seen[*from]) return false;
      seen[*from] = true;
      step.perm.push_back(static_cast<int>(*from));
      step.shape.push_back(operand->shape[*from]);
    }
  } else {
    const auto shape = StepShape(scopes, files, at.scope, node, operand->shape);
    if (!shape) return false;
    step.shape = *shape;
    if (node.op_type() == "Cast")
      operand->elem_type = static_cast<int>(IntAttribute(node, "to", 0));
  }
  operand->shape = step.shape;
  operand->steps.push_back(std::move(step));
  return true;
}

}  // namespace

ConstantOperand TraceConstant(const Scopes& scopes, const DataFiles& files, int scope,
                              const std::string& name) {
  ConstantOperand operand;
  KnownConstness known;
  const Constness constness = FindConstness(scopes, scope, name, 0, &known);
  if (!constness.constant) return operand;
  operand.kind = ConstantOperand::Kind::kComputed;
  if (!constness.quantized) operand.evaluable = name;
  std::vector<Definition> path;  // from the operand to the stored tensor
  Definition at = scopes.Find(scope, name);
  std::string value = name;
  while (at.kind == Definition::Kind::kNode) {
    const onnx::NodeProto& node = scopes.Node(at);
    if (!MovesElements(node)) {
      if (!constness.quantized) operand.evaluable = value;
      const bool quantized = node.op_type().find("DequantizeLinear") != std::string::npos;
      operand.reason = quantized ? "its weight is already quantized (" + node.op_type() + ")"
                                 : "its weight is computed by " + node.op_type();
      return operand;
    }
    path.push_back(at);
    value = node.input(0);
    at = scopes.Find(at.scope, value);
  }
  const onnx::TensorProto& stored = scopes.Initializer(at);
  operand.source = at;
  operand.shape = TensorShape(stored);
  operand.elem_type = stored.data_type();
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    if (!AddStep(scopes, files, *it, &operand)) {
      operand.reason =
          "its weight passes through a " + scopes.Node(*it).op_type() + " that cannot be followed";
      return operand;
    }
  }
  operand.kind = ConstantOperand::Kind::kChain;
  return operand;
}

std::optional<ScaleAxes> Reshaped(const ScaleAxes& axes, const Shape& dims) {
  if (axes.dims == dims) return axes;
  ScaleAxes result = ScaleAxes::None(dims);
  // A dimension covers the factors between its stride and stride * size of the element number. A
  // scaled one must be covered exactly by dimensions of the other shape.
  size_t stride = 1;
  for (size_t i = axes.dims.size(); i-- > 0;) {
    const size_t end = stride * static_cast<size_t>(axes.dims[i]);
    if (axes.scaled[i] && axes.dims[i] > 1) {
      size_t covered = stride, inner = 1;
      for (size_t j = dims.size(); j-- > 0;) {
        const size_t outer = inner * static_cast<size_t>(dims[j]);
        if (dims[j] > 1 && inner == covered && outer <= end) {
          result.scaled[j] = true;
          covered = outer;
        }
        inner = outer;
      }
      if (covered != end) return std::nullopt;
    }
    stride = end;
  }
  return result;
}

std::optional<ScaleAxes> MapBack(const ConstantOperand& operand, ScaleAxes axes) {
  for (auto it = operand.steps.rbegin(); it != operand.steps.rend(); ++it) {
    if (it->perm.empty()) continue;  // the order of the elements stays
    const auto seen = Reshaped(axes, it->shape);
    if (!seen) return std::nullopt;
    axes = ScaleAxes::None(it->shape);
    for (size_t i = 0; i < it->perm.size(); ++i) {
      const auto from = static_cast<size_t>(it->perm[i]);
      axes.dims[from] = seen->dims[i];
      axes.scaled[from] = seen->scaled[i];
    }
  }
  return axes;
}

std::optional<ChannelLayout> LayoutOf(const ScaleAxes& axes) {
  // Runs of dimensions, alternately with and without scales; those of size 1 belong to any.
  struct Run {
    bool scaled;
    size_t size;
  };
  std::vector<Run> runs;
  for (size_t i = 0; i < axes.dims.size(); ++i) {
    if (axes.dims[i] == 1) continue;
    const auto size = static_cast<size_t>(axes.dims[i]);
    if (!runs.empty() && runs.back().scaled == axes.scaled[i]) {
      runs.back().size *= size;
    } else {
      runs.push_back({axes.scaled[i], size});
    }
  }
  if (!runs.empty() && !runs.back().scaled) {
    const size_t inner = runs.back().size;
    runs.pop_back();
    if (runs.empty()) return ChannelLayout::PerTensor(inner);
    if (runs.size() > 3) return std::nullopt;
    runs.push_back({false, inner});
  } else {
    runs.push_back({false, 1});
  }
  // Now: [batch] [outer] channels inner, read from the end.
  ChannelLayout layout;
  size_t next = runs.size();
  layout.inner = runs[--next].size;
  if (next > 0) layout.channels = runs[--next].size;
  if (next > 0) layout.outer = runs[--next].size;
  if (next > 0) layout.batch = runs[--next].size;
  if (next > 0) return std::nullopt;
  return layout;
}

}  // namespace hif8
