#include "lib/model/onnx/stored_codes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/quantized_operands.h"
#include "lib/model/onnx/scale_shape.h"
#include "lib/model/onnx/tensor_data.h"
#include "lib/model/onnx/weight_codes.h"
#include "lib/numeric/packed_codes.h"
#include "lib/numeric/scale_codes.h"
#include "lib/numeric/zero_points.h"

namespace hif8 {
namespace {

// What quantizers add to the name of a tensor for its codes, or for what they are decoded to.
constexpr std::array<std::string_view, 15> kSuffixes = {"_DequantizeLinear_Output",
                                                        "_DequantizeLinear",
                                                        "_DQ_Q4_output",
                                                        "_DQ_Q4",
                                                        "_f4",
                                                        "_int4",
                                                        "_uint4",
                                                        "_dequantized",
                                                        "_quantized",
                                                        "_codes",
                                                        "_int8",
                                                        "_uint8",
                                                        "_fp8",
                                                        "_dq",
                                                        "_q"};

// Stored scales, and along which dimensions several elements share one.
struct SharedScales {
  const onnx::TensorProto* tensor = nullptr;
  const onnx::TensorProto* factor = nullptr;  // of all of them; null: none
  std::map<int64_t, int64_t> edges;           // by axis
};

// How many elements share a scale by the places that are looked up; nothing when it is no equal
// number.
std::optional<int64_t> EdgeOf(const std::vector<int64_t>& places) {
  const int64_t edge = std::count(places.begin(), places.end(), int64_t{0});
  if (edge == 0) return std::nullopt;
  for (size_t i = 0; i < places.size(); ++i) {
    // The last scale stands for elements that fill up a byte as well.
    const int64_t place = std::min(static_cast<int64_t>(i) / edge, places.back());
    if (places[i] != place) return std::nullopt;
  }
  return edge;
}

// Back through the nodes that look up every element's scale, or decode them.
SharedScales FindScales(const OnnxModel::Impl& model, int scope, std::string name) {
  SharedScales found;
  Definition at = model.scopes->Find(scope, name);
  while (at.kind == Definition::Kind::kNode) {
    const onnx::NodeProto& node = model.scopes->Node(at);
    name = InputName(node, 0);
    scope = at.scope;
    at = model.scopes->Find(scope, name);
    if (IsStandardOp(node, "Identity")) continue;
    if (IsLinear(node, "DequantizeLinear")) {  // scales that are stored quantized (NVFP4)
      found.factor = model.scopes->FindConstant(scope, InputName(node, 1));
      if (found.factor == nullptr) return {};
      continue;
    }
    const onnx::TensorProto* places = model.scopes->FindConstant(scope, InputName(node, 1));
    if (!IsStandardOp(node, "Gather") || places == nullptr) return {};
    const auto indices = ReadInts(*places, model.files);
    const std::optional<int64_t> edge = indices ? EdgeOf(*indices) : std::nullopt;
    if (!edge) return {};
    found.edges[IntAttribute(node, "axis", 0)] = *edge;
  }
  found.tensor = model.scopes->FindConstant(scope, name);
  return found;
}

// How many columns rows of packed codes have: two a byte, or one less where a Gather behind the
// node takes the last one away.
int64_t UnpackedColumns(const OnnxModel::Impl& model, int scope, const onnx::NodeProto& node,
                        const Shape& packed) {
  const int64_t bytes = packed.back();
  const auto last = static_cast<int64_t>(packed.size()) - 1;
  for (const onnx::NodeProto& reader : (*model.scopes)[scope].graph->node()) {
    if (!IsStandardOp(reader, "Gather") || InputName(reader, 0) != node.output(0)) continue;
    if (IntAttribute(reader, "axis", 0) != last) continue;
    const onnx::TensorProto* places = model.scopes->FindConstant(scope, InputName(reader, 1));
    if (places == nullptr) continue;
    // Anything but the half byte that fills up a row is the network's own business.
    const auto columns = static_cast<int64_t>(ElementCount(TensorShape(*places)));
    if (columns == 2 * bytes - 1) return columns;
  }
  return 2 * bytes;
}

std::vector<std::string> NamesOf(const std::vector<std::string>& values) {
  std::vector<std::string> names;
  for (const std::string& name : values) {
    names.push_back(name);
    for (const std::string_view suffix : kSuffixes) {
      if (name.size() > suffix.size() && name.ends_with(suffix)) {
        names.push_back(name.substr(0, name.size() - suffix.size()));
      }
    }
  }
  return names;
}

std::string TensorText(const onnx::TensorProto& tensor) {
  return OnnxTypeName(tensor.data_type()) + " " + ShapeText(TensorShape(tensor));
}

// A power of two for each scale.
bool AreExponents(const StoredCodes& stored) {
  return stored.scales->data_type() == kOnnxFloat8E8M0;
}

// Scales of a function that are codes.
bool AreScaleCodes(const StoredCodes& stored) {
  return stored.type == nullptr && stored.scales->data_type() == onnx::TensorProto::UINT8;
}

bool IsFloatTensor(const onnx::TensorProto& tensor) {
  DType dtype = DType::kF32;
  return ToDType(tensor.data_type(), &dtype) && IsFloat(dtype);
}

bool IsCodeTensor(const onnx::TensorProto& tensor) {
  return FindCodeType(tensor.data_type()) != nullptr;
}

// Types that can be decoded together; `format`: of a function that is known here.
bool TypesFit(const StoredCodes& stored, const NumberFormat* format) {
  const onnx::TensorProto& codes = *stored.codes;
  const onnx::TensorProto& scales = *stored.scales;
  if (stored.rounding && !IsFloatTensor(codes)) return false;
  if (stored.type == nullptr && codes.data_type() != onnx::TensorProto::UINT8) return false;
  for (const onnx::TensorProto* number : {stored.factor, stored.global_scale}) {
    if (number == nullptr) continue;
    if (!IsFloatTensor(*number) || ElementCount(TensorShape(*number)) != 1) return false;
  }
  if (AreScaleCodes(stored)) return format == nullptr || format->ScalesFollowAmax();
  return IsFloatTensor(scales) || AreExponents(stored) ||
         (stored.factor != nullptr && IsCodeTensor(scales));
}

// One for all, or one beside each scale.
bool Matches(const onnx::TensorProto* zero_points, size_t scales) {
  if (zero_points == nullptr) return true;
  const size_t count = ElementCount(TensorShape(*zero_points));
  return IsCodeTensor(*zero_points) && (count == scales || count == 1);
}

// Which codes share a scale. False when shapes or types do not fit together.
bool FindLayout(const QuantizedOperand& operand, const Shape& shape,
                std::map<int64_t, int64_t> edges, const NumberFormat* format, StoredCodes* stored) {
  if (!TypesFit(*stored, format)) return false;
  const Shape scales = TensorShape(*stored->scales);
  const size_t count = ElementCount(scales);
  std::optional<int64_t> axis = operand.axis;
  if (axis && *axis < 0) *axis += static_cast<int64_t>(shape.size());
  if (axis && operand.block > 0) edges[*axis] = operand.block;
  // Those of an operator's result may be shaped to broadcast to it.
  const bool fits = LayoutFor(shape, scales, axis, edges, &stored->layout) ||
                    LayoutFor(shape, {static_cast<int64_t>(count)}, axis, edges, &stored->layout);
  if (!fits || !Matches(stored->zero_points, count)) return false;
  if (!stored->rounding) return true;
  return operand.rounding->axis == operand.axis && operand.rounding->block == operand.block &&
         ElementCount(TensorShape(*stored->rounding->scales)) == count &&
         stored->rounding->scales->data_type() == stored->scales->data_type() &&
         Matches(stored->rounding->zero_points, count);
}

// Elements in groups that share an exponent are a format of their own; null where there is none.
const NumberFormat* FormatOf(const QuantizedOperand& operand, const StoredCodes& stored,
                             const FormatRegistry& formats) {
  const NumberFormat* grouped = FindFormat(formats, [&](const NumberFormat& format) {
    return stored.type->Holds(format) && AreExponents(stored) &&
           format.scale_encoding() == ScaleEncoding::kE8M0 &&
           static_cast<int64_t>(format.OwnTiles()->weight.inputs) == operand.block;
  });
  return grouped != nullptr ? grouped : stored.type->Format(formats);
}

bool IsReadOtherwise(const OnnxModel::Impl& model, const Uses& uses, int scope,
                     const std::string& value) {
  const std::vector<Use>& readers = uses.Of(scope, value);
  return std::any_of(readers.begin(), readers.end(), [&](const Use& use) {
    if (use.node < 0) return true;
    const onnx::NodeProto& reader = (*model.scopes)[use.scope].graph->node(use.node);
    return !IsLinear(reader, "QuantizeLinear");
  });
}

std::string TypeProblem(const StoredCodes& stored, int type) {
  if (stored.scales == nullptr) return "nothing constant was found that scales its products";
  return "elements of type " + OnnxTypeName(type);
}

// Fills what the operator set knows of codes: all but what a function's codes have.
bool FindType(const OnnxModel::Impl& model, const Uses& uses, int scope,
              const QuantizedOperand& operand, const FormatRegistry& formats, StoredCodes* stored) {
  int type = stored->codes->data_type();
  if (operand.rounding) {
    type = operand.rounding->type;
    stored->rounding = {model.scopes->FindConstant(scope, operand.rounding->scales),
                        model.scopes->FindConstant(scope, operand.rounding->zero_points),
                        IsReadOtherwise(model, uses, scope, operand.codes)};
    if (stored->rounding->scales == nullptr) return false;
  }
  stored->type = FindCodeType(type);
  const bool complete = stored->type != nullptr && stored->scales != nullptr;
  const NumberFormat* format = complete ? FormatOf(operand, *stored, formats) : nullptr;
  if (format != nullptr) {
    stored->format = format->name();
  } else if (!complete || stored->type->bits <= 8) {
    stored->problem = TypeProblem(*stored, type);
  }
  return true;
}

std::optional<StoredCodes> Find(const OnnxModel::Impl& model, const Uses& uses, int scope,
                                const onnx::NodeProto& node, const QuantizedOperand& operand,
                                const FormatRegistry& formats) {
  const auto constant = [&](const std::string& name) {
    return model.scopes->FindConstant(scope, name);
  };
  StoredCodes stored;
  const SharedScales scales = FindScales(model, scope, operand.scales);
  stored.codes = constant(operand.codes);
  stored.scales = scales.tensor;
  stored.factor = operand.factor.empty() ? scales.factor : constant(operand.factor);
  stored.zero_points = constant(operand.zero_points);
  stored.global_scale = constant(operand.global_scale);
  // What changes while the network runs is no stored value.
  if (stored.codes == nullptr || (stored.scales == nullptr && !operand.scales.empty()) ||
      (stored.zero_points == nullptr && !operand.zero_points.empty()) ||
      (stored.factor == nullptr && !operand.factor.empty()) ||
      (stored.global_scale == nullptr && !operand.global_scale.empty())) {
    return std::nullopt;
  }
  const DequantizedWeight written = FindDequantizedWeight(node);
  stored.names = NamesOf(operand.names);
  if (!written.weight.empty()) stored.names = {written.weight};
  Shape shape = TensorShape(*stored.codes);
  const NumberFormat* format = nullptr;
  if (!FormatOfDomain(node.domain()).empty()) {
    stored.format = written.format;
    format = formats.Find(stored.format);
    stored.packed = format != nullptr && format->packed();
    if (stored.packed && !shape.empty()) shape.back() = UnpackedColumns(model, scope, node, shape);
  } else if (!FindType(model, uses, scope, operand, formats, &stored)) {
    return std::nullopt;
  }
  stored.layout = TileLayout::PerTensor(shape);
  if (stored.problem.empty() && !FindLayout(operand, shape, scales.edges, format, &stored)) {
    stored.problem =
        "codes " + TensorText(*stored.codes) + " do not fit scales " + TensorText(*stored.scales);
  }
  return stored;
}

std::vector<float> ScaleNumbers(const StoredCodes& stored, const onnx::TensorProto& scales,
                                const FormatRegistry& formats, const DataFiles& files) {
  if (AreScaleCodes(stored)) {
    const Tensor codes = ReadTensor(scales, files);
    const float global = stored.global_scale == nullptr
                             ? 1
                             : ReadNumbers(*stored.global_scale, formats, files).front();
    return ScaleValues(formats.Get(stored.format),
                       {reinterpret_cast<const uint8_t*>(codes.view.data), codes.view.size()},
                       global);
  }
  if (!AreExponents(stored)) return ReadNumbers(scales, formats, files);
  const Tensor exponents = ReadTensor(scales, files);
  std::vector<float> powers(exponents.view.size());
  std::transform(exponents.view.data, exponents.view.data + powers.size(), powers.begin(),
                 [](std::byte exponent) { return E8M0Value(static_cast<uint8_t>(exponent)); });
  return powers;
}

// One number for each tile.
std::vector<float> PerTile(std::vector<float> numbers, const StoredCodes& stored) {
  if (numbers.size() == 1) numbers.resize(stored.layout.scale_count(), numbers.front());
  return numbers;
}

// Numbers of integers, as the file's type has them.
std::vector<float> IntegerCodes(const StoredCodes& stored, const FormatRegistry& formats,
                                const DataFiles& files) {
  if (!stored.rounding) return ReadNumbers(*stored.codes, formats, files);
  const Tensor values = ReadTensor(*stored.codes, files);
  std::vector<float> buffer;
  const std::span<const float> floats = AsFloats(values.view, &buffer);
  const std::vector<float> scales = ScaleNumbers(stored, *stored.rounding->scales, formats, files);
  std::vector<float> zeros = {0};
  if (stored.rounding->zero_points != nullptr) {
    zeros = ReadNumbers(*stored.rounding->zero_points, formats, files);
  }
  std::vector<float> codes(floats.size());
  const std::vector<float> every = PerTile(std::move(zeros), stored);
  EncodeShifted(floats, {stored.layout, scales, every}, stored.type->range, codes);
  return codes;
}

// The codes that floats become.
Tensor RoundedCodes(const StoredCodes& stored, const FormatRegistry& formats,
                    const DataFiles& files) {
  std::byte* bytes = nullptr;
  Tensor result = Tensor::Allocate(DType::kU8, stored.layout.shape, &bytes);
  const std::span<uint8_t> codes{reinterpret_cast<uint8_t*>(bytes), stored.layout.size()};
  if (!stored.type->IsInteger()) {
    const std::vector<float> scales =
        ScaleNumbers(stored, *stored.rounding->scales, formats, files);
    EncodeTiles(formats.Get(stored.format), FloatSource(ReadTensor(*stored.codes, files)),
                stored.layout, scales, codes);
    return result;
  }
  const std::vector<float> numbers = IntegerCodes(stored, formats, files);
  const int mask = (1 << stored.type->bits) - 1;
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<uint8_t>((static_cast<int>(numbers[i]) & mask) ^ stored.type->flip);
  }
  return result;
}

// One for each tile, as the file's type has them.
std::vector<float> StoredZeroPoints(const StoredCodes& stored, const FormatRegistry& formats,
                                    const DataFiles& files) {
  std::vector<float> zeros = {0};
  if (stored.zero_points != nullptr) zeros = ReadNumbers(*stored.zero_points, formats, files);
  return PerTile(std::move(zeros), stored);
}

}  // namespace

std::vector<StoredCodes> FindStoredCodes(const OnnxModel::Impl& model, const Uses& uses, int scope,
                                         const onnx::NodeProto& node,
                                         const FormatRegistry& formats) {
  std::vector<StoredCodes> found;
  for (const QuantizedOperand& operand : OperandsOf(*model.scopes, uses, scope, node)) {
    if (auto stored = Find(model, uses, scope, node, operand, formats)) {
      found.push_back(*std::move(stored));
    }
  }
  return found;
}

Tensor ReadCodes(const StoredCodes& stored, const FormatRegistry& formats, const DataFiles& files) {
  if (stored.rounding) return RoundedCodes(stored, formats, files);
  if (stored.type != nullptr) return ReadCodeTensor(*stored.codes, *stored.type, files);
  Tensor codes = ReadTensor(*stored.codes, files);
  if (!stored.packed) return codes;
  std::byte* bytes = nullptr;
  Tensor result = Tensor::Allocate(DType::kU8, stored.layout.shape, &bytes);
  const std::span<const uint8_t> from{reinterpret_cast<const uint8_t*>(codes.view.data),
                                      codes.view.bytes()};
  const std::span<uint8_t> to{reinterpret_cast<uint8_t*>(bytes), stored.layout.size()};
  if (!to.empty()) UnpackCodes(from, static_cast<size_t>(stored.layout.shape.back()), to);
  return result;
}

Tensor ReadIntegers(const StoredCodes& stored, const FormatRegistry& formats,
                    const DataFiles& files) {
  std::vector<float> values = IntegerCodes(stored, formats, files);
  const std::vector<float> zeros = StoredZeroPoints(stored, formats, files);
  DecodeShifted({stored.layout, ReadScales(stored, formats, files), zeros}, values);
  std::byte* bytes = nullptr;
  Tensor decoded = Tensor::Allocate(DType::kF32, stored.layout.shape, &bytes);
  if (!values.empty()) std::memcpy(bytes, values.data(), values.size() * sizeof(float));
  return decoded;
}

std::vector<float> ReadScales(const StoredCodes& stored, const FormatRegistry& formats,
                              const DataFiles& files) {
  std::vector<float> scales = ScaleNumbers(stored, *stored.scales, formats, files);
  if (stored.factor != nullptr) {
    const float factor = ReadNumbers(*stored.factor, formats, files).front();
    for (float& scale : scales) scale *= factor;
  }
  return scales;
}

std::vector<float> ReadZeroPoints(const StoredCodes& stored, const FormatRegistry& formats,
                                  const DataFiles& files) {
  if (stored.type == nullptr || !stored.type->IsInteger()) return {};
  std::vector<float> zeros = StoredZeroPoints(stored, formats, files);
  for (float& zero : zeros) zero -= stored.type->flip;
  const bool any = std::any_of(zeros.begin(), zeros.end(), [](float zero) { return zero != 0; });
  return any ? zeros : std::vector<float>();
}

}  // namespace hif8
