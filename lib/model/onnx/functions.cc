#include "lib/model/onnx/functions.h"

#include <cmath>
#include <limits>

#include "lib/numeric/block_scale.h"
#include "lib/numeric/scale_codes.h"

namespace hif8 {
namespace {

constexpr std::string_view kDomainPrefix = "ai.";

// Adds nodes to a function and names their results.
class Body {
 public:
  Body(onnx::FunctionProto* function, int64_t opset) : function_(*function) {
    onnx::OperatorSetIdProto* import = function->add_opset_import();
    import->set_domain("");
    import->set_version(opset);
  }

  std::string Call(const std::string& op, std::vector<std::string> inputs,
                   const std::string& output = {}) {
    const std::string name = output.empty() ? Next() : output;
    *function_.add_node() = MakeNode(op, std::move(inputs), {name});
    return name;
  }
  std::string Cast(const std::string& value, int type) {
    const std::string name = Call("Cast", {value});
    SetAttribute(function_.mutable_node(function_.node_size() - 1), "to", type);
    return name;
  }
  std::string Number(const std::string& value) { return Cast(value, onnx::TensorProto::FLOAT); }
  std::string Constant(const onnx::TensorProto& tensor) {
    const std::string name = Call("Constant", {});
    SetValue(tensor);
    return name;
  }
  std::string Scalar(float value) {
    return Constant(MakeTensor("", {}, std::vector<float>{value}));
  }
  // Bounds are inputs since operator set 11.
  std::string Clip(const std::string& x, float low, float high) {
    if (function_.opset_import(0).version() >= 11) {
      return Call("Clip", {x, Scalar(low), Scalar(high)});
    }
    const std::string name = Call("Clip", {x});
    AddAttribute("min", onnx::AttributeProto::FLOAT)->set_f(low);
    AddAttribute("max", onnx::AttributeProto::FLOAT)->set_f(high);
    return name;
  }
  // The entries of a table at the places that UINT8 numbers say.
  std::string LookUp(const Shape& shape, const std::vector<float>& table,
                     const std::string& numbers) {
    const std::string values = Constant(MakeTensor("", shape, table));
    return Call("Gather", {values, Cast(numbers, onnx::TensorProto::INT32)});
  }
  std::string Gather(const std::string& x, const std::string& index, int64_t axis) {
    const std::string name = Call("Gather", {x, index});
    SetAttribute(function_.mutable_node(function_.node_size() - 1), "axis", axis);
    return name;
  }
  // The largest along one dimension. Dimensions are named by an input since operator set 18.
  std::string ReduceMax(const std::string& x, int64_t axis, bool keep) {
    const bool by_input = function_.opset_import(0).version() >= 18;
    std::vector<std::string> inputs = {x};
    if (by_input) inputs.push_back(Integers({axis}));
    const std::string name = Call("ReduceMax", std::move(inputs));
    onnx::NodeProto* node = function_.mutable_node(function_.node_size() - 1);
    SetAttribute(node, "keepdims", keep ? 1 : 0);
    if (!by_input) SetIntegers("axes", {axis});
    return name;
  }
  std::string Integer(int32_t value) { return Constant(MakeTensor("", {}, DType::kI32, &value)); }
  std::string Integers(const std::vector<int64_t>& values) {
    return Constant(MakeTensor("", {static_cast<int64_t>(values.size())}, values));
  }
  // [1]: the size of one dimension. Slice takes its bounds as inputs since operator set 10.
  std::string Size(const std::string& x, int64_t axis) {
    const std::vector<int64_t> begin = {axis};
    const std::vector<int64_t> end = {axis == -1 ? std::numeric_limits<int64_t>::max() : axis + 1};
    const std::string shape = Call("Shape", {x});
    if (function_.opset_import(0).version() >= 10) {
      return Call("Slice", {shape, Integers(begin), Integers(end)});
    }
    const std::string name = Call("Slice", {shape});
    SetIntegers("starts", begin);
    SetIntegers("ends", end);
    return name;
  }
  // 0, 1, 2, ...: as many as `size` [1] says.
  std::string CountUp(const std::string& size) {
    const std::string ones = Call("ConstantOfShape", {size});
    SetValue(MakeTensor("", {1}, std::vector<int64_t>{1}));
    return Call("Reshape", {Call("NonZero", {ones}), Integers({-1})});
  }

 private:
  // Attributes of the last node.
  onnx::AttributeProto* AddAttribute(const char* name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto* attribute =
        function_.mutable_node(function_.node_size() - 1)->add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    return attribute;
  }
  void SetValue(const onnx::TensorProto& tensor) {
    *AddAttribute("value", onnx::AttributeProto::TENSOR)->mutable_t() = tensor;
  }
  void SetIntegers(const char* name, const std::vector<int64_t>& values) {
    onnx::AttributeProto* attribute = AddAttribute(name, onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute->add_ints(value);
  }
  std::string Next() { return "v" + std::to_string(count_++); }

  onnx::FunctionProto& function_;
  int count_ = 0;
};

onnx::FunctionProto NewFunction(const NumberFormat& format, std::string_view name,
                                const std::vector<std::string>& inputs, const char* text) {
  onnx::FunctionProto function;
  function.set_name(std::string(name));
  function.set_domain(FunctionDomain(format.name()));
  function.set_doc_string(text);
  for (const std::string& input : inputs) function.add_input(input);
  function.add_output("y");
  return function;
}

// The signed inverse of the grid's step at x, clipped to +-1 / least_step, which is what it is at
// 0. x - x * (1 - 2^-24) is the last place of x, 2^(e - 23) with x's sign; of a power of two it is
// half of that, and its finer step does no harm, for x is a multiple of either. w is 2^(2|e|) times
// kUnit, or a little more where |e| is small: between two exponents it leaves a gap for a clip that
// ends in powers of two, which is one factor of two for each edge.
std::string AddInverseStep(Body& body, const BandedGrid& grid, const std::string& x) {
  constexpr int kPlace = -23, kUnit = 2 * kPlace;
  const auto power = [](int e) { return std::ldexp(1.0F, e); };
  const std::string below = body.Call("Mul", {x, body.Scalar(1 - power(kPlace - 1))});
  std::string product = body.Call("Sub", {x, below});
  int exponent = grid.fraction_bits + kPlace;
  if (!grid.edges.empty()) {
    const std::string inverse = body.Call("Div", {body.Scalar(power(kUnit)), product});
    const std::string sum = body.Call("Add", {product, inverse});
    const std::string w = body.Call("Mul", {sum, sum});
    for (const int edge : grid.edges) {
      const int low = 2 * edge + 1 + kUnit;
      product = body.Call("Mul", {product, body.Clip(w, power(low), power(low + 1))});
      exponent += low;
    }
  }
  const std::string inverse = body.Call("Div", {body.Scalar(power(exponent)), product});
  return body.Clip(inverse, -1 / grid.least_step, 1 / grid.least_step);
}

// x rounded; what rounds to zero may be -0, and NaN may become anything.
std::string AddBandedRounding(Body& body, const BandedGrid& grid, const std::string& x) {
  const std::string most = body.Clip(x, -grid.most, grid.most);
  const std::string inverse_step =
      grid.uniform() ? body.Scalar(1 / grid.least_step) : AddInverseStep(body, grid, most);
  const std::string steps = body.Call("Mul", {most, inverse_step});
  std::string whole;
  if (grid.ties_to_even) {
    // Beyond 2^23 floats are whole numbers, and a sum is rounded to the nearest, ties to even.
    const std::string large = body.Scalar(1.5F * (1 << 23));
    whole = body.Call("Sub", {body.Call("Add", {steps, large}), large});
  } else {
    // Steps are positive, the sign is in the step. Just below 1/2: else what is just below 1/2
    // itself would be rounded to 1 by the addition; at every other tie the sum is rounded up.
    const std::string half = body.Scalar(std::nextafter(0.5F, 0.0F));
    whole = body.Call("Floor", {body.Call("Add", {steps, half})});
  }
  return body.Call("Div", {whole, inverse_step});
}

// Binary search for the number of thresholds that the magnitude reaches; `magnitude` may be
// infinite.
std::string AddSearchedRounding(Body& body, const RoundingTable& table,
                                const std::string& magnitude) {
  int32_t steps = 1;
  while (steps < static_cast<int32_t>(table.values.size())) steps *= 2;
  const auto size = static_cast<size_t>(steps);
  std::vector<float> thresholds(table.thresholds);
  thresholds.resize(size, std::numeric_limits<float>::infinity());
  std::vector<float> values(table.values);
  values.resize(size, table.values.back());
  const std::string limits = body.Constant(MakeTensor("", {steps}, thresholds));
  const std::string a =
      body.Call("Min", {magnitude, body.Scalar(std::numeric_limits<float>::max())});
  std::string found;  // how many thresholds were reached so far
  for (int32_t step = steps / 2; step > 0; step /= 2) {
    const std::string next = body.Integer(step - 1);
    const std::string at = found.empty() ? next : body.Call("Add", {found, next});
    const std::string below = body.Call("Less", {a, body.Call("Gather", {limits, at})});
    const std::string reached = body.Cast(body.Call("Not", {below}), onnx::TensorProto::INT32);
    const std::string jump = body.Call("Mul", {reached, body.Integer(step)});
    found = found.empty() ? jump : body.Call("Add", {found, jump});
  }
  return body.Call("Gather", {body.Constant(MakeTensor("", {steps}, values)), found});
}

// The same for both signs.
std::string AddSignedSearch(Body& body, const RoundingTable& table, const std::string& x) {
  const std::string rounded = AddSearchedRounding(body, table, body.Call("Abs", {x}));
  const std::string zero = body.Scalar(0);
  const std::string opposite = body.Call("Sub", {zero, rounded});
  return body.Call("Where", {body.Call("Less", {x, zero}), opposite, rounded});
}

// E8M0 scales of a format by the largest magnitude of a group: a power of two for each.
RoundingTable ScaleTable(const NumberFormat& format) {
  RoundingTable table;
  table.values.push_back(E8M0Value(0));
  for (int e = -126; e <= 127; ++e) {
    const float power = std::ldexp(1.0F, e);
    const float scale = E8M0Value(E8M0FromAmax(power, format));
    if (scale == table.values.back()) continue;
    table.values.push_back(scale);
    table.thresholds.push_back(power);
  }
  return table;
}

// Normal positive numbers rounded up to powers of two.
RoundingTable PowersOfTwo() {
  RoundingTable table;
  for (int e = -126; e <= 127; ++e) {
    const float power = std::ldexp(1.0F, e);
    if (e > -126) table.thresholds.push_back(std::nextafter(table.values.back(), power));
    table.values.push_back(power);
  }
  return table;
}

// The inputs of a scale function that say which elements form a group, found from x itself; the
// last element stands in for those that a group lacks.
struct Groups {
  std::string groups = "groups";
  std::string places = "places";
};
Groups FindGroups(Body& body, const ScaleFunction& how) {
  if (how.edge == 0) return {};
  const std::string size = body.Size("x", how.axis);
  const std::string edge = body.Integers({how.edge});
  const std::string more = body.Call("Add", {size, body.Integers({how.edge - 1})});
  const std::string padded = body.Call("Mul", {body.Call("Div", {more, edge}), edge});
  const std::string index = body.CountUp(padded);
  const std::string last = body.Call("Sub", {size, body.Integers({1})});
  const std::string inside = body.Call("Where", {body.Call("Less", {index, size}), index, last});
  return {body.Call("Reshape", {inside, body.Integers({-1, how.edge})}),
          body.Call("Div", {body.CountUp(size), edge})};
}

}  // namespace

std::string FunctionDomain(std::string_view format) {
  return std::string(kDomainPrefix) + std::string(format);
}

std::string_view FormatOfDomain(std::string_view domain) {
  if (!domain.starts_with(kDomainPrefix) || domain.starts_with("ai.onnx")) return {};
  return domain.substr(kDomainPrefix.size());
}

std::string OperatorMarkText(const OperatorMark& mark) {
  return FunctionDomain(mark.format) + ":" + mark.text;
}

OperatorMark ParseOperatorMark(std::string_view description) {
  const size_t colon = description.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view format = FormatOfDomain(description.substr(0, colon));
  if (format.empty()) return {};
  return {std::string(format), std::string(description.substr(colon + 1))};
}

onnx::FunctionProto MakeDequantizeFunction(const NumberFormat& format, int64_t opset) {
  const bool global = format.HasGlobalScale();
  std::vector<std::string> inputs = {"codes", "scale"};
  if (global) inputs.emplace_back("global_scale");
  onnx::FunctionProto function = NewFunction(
      format, kDequantizeFunction, inputs,
      global ? "y = table[codes] * (number[scale] / global_scale)" : "y = table[codes] * scale");
  Body body(&function, opset);
  const std::span<const float> table = format.DecodeTable();
  std::string scale = "scale";
  if (format.ScalesFollowAmax()) {
    std::vector<float> numbers(256);
    for (size_t code = 0; code < numbers.size(); ++code) {
      numbers[code] = ScaleValue(format, static_cast<uint8_t>(code), 1);
    }
    scale = body.LookUp({256}, numbers, scale);
  }
  if (global) scale = body.Call("Div", {scale, "global_scale"});
  std::string values;
  if (format.packed()) {
    std::vector<float> pairs;
    for (size_t byte = 0; byte < 256; ++byte) {
      pairs.push_back(table[byte % 16]);
      pairs.push_back(table[byte / 16]);
    }
    values =
        body.Call("Reshape", {body.LookUp({256, 2}, pairs, "codes"), body.Call("Shape", {scale})});
  } else {
    values =
        body.LookUp({static_cast<int64_t>(table.size())}, {table.begin(), table.end()}, "codes");
  }
  body.Call("Mul", {values, scale}, "y");
  return function;
}

onnx::FunctionProto MakeQuantizeDequantizeFunction(const NumberFormat& format, int64_t opset) {
  onnx::FunctionProto function =
      NewFunction(format, kQuantizeDequantizeFunction, {"x", "scale"},
                  "x / scale rounded to the nearest value of the number format, saturating, times "
                  "scale; infinities and NaN stay");
  Body body(&function, opset);
  const std::string scaled = body.Call("Div", {"x", "scale"});
  const RoundingTable table = MakeRoundingTable(format);
  const std::optional<BandedGrid> grid = FindBandedGrid(table);
  const std::string rounded =
      grid ? AddBandedRounding(body, *grid, scaled) : AddSignedSearch(body, table, scaled);
  const std::string result = body.Call("Mul", {rounded, "scale"});
  // Infinite or NaN where x is, else +0, which makes +0 of -0 too.
  constexpr float kMost = std::numeric_limits<float>::max();
  const std::string beyond = body.Call("Sub", {"x", body.Clip("x", -kMost, kMost)});
  body.Call("Add", {result, beyond}, "y");
  return function;
}

std::string ScaleFunction::Name() const {
  std::string name = grouped ? "GroupScale" : "TokenScale";
  if (edge > 0) name += "Of" + std::to_string(edge);
  if (power_of_two) name += "PowerOfTwo";
  return name + (axis < 0 ? "AxisFromEnd" : "Axis") + std::to_string(axis < 0 ? -axis : axis);
}

onnx::FunctionProto MakeScaleFunction(const NumberFormat& format, const ScaleFunction& how,
                                      int64_t opset) {
  const bool power = format.scale_encoding() == ScaleEncoding::kE8M0;
  const bool global = format.HasGlobalScale();
  std::vector<std::string> inputs = {"x"};
  if (how.grouped && how.edge == 0) inputs.insert(inputs.end(), {"groups", "places"});
  if (!power) inputs.emplace_back("target");
  if (global) inputs.emplace_back("global_scale");
  onnx::FunctionProto function =
      NewFunction(format, how.Name(), inputs, "scales from the largest finite magnitudes of x");
  Body body(&function, opset);
  const std::string zero = body.Scalar(0);
  const std::string size = body.Call("Abs", {"x"});
  // False for infinities and NaN.
  const std::string finite =
      body.Call("Less", {size, body.Scalar(std::numeric_limits<float>::infinity())});
  std::string amax = body.Call("Where", {finite, size, zero});
  Groups groups;
  if (how.grouped) {
    groups = FindGroups(body, how);
    amax = body.Gather(amax, groups.groups, how.axis);
  }
  const int64_t axis = how.grouped && how.axis >= 0 ? how.axis + 1 : how.axis;
  amax = body.ReduceMax(amax, axis, !how.grouped);
  std::string scale;
  if (power) {
    scale = AddSearchedRounding(body, ScaleTable(format), amax);
  } else if (global) {
    RoundingTable numbers = MakeRoundingTable(*format.storage().scale_format);
    numbers.values[0] = numbers.values[1];  // never 0
    const std::string wanted =
        body.Call("Mul", {body.Call("Div", {amax, "target"}), "global_scale"});
    scale = body.Call("Div", {AddSearchedRounding(body, numbers, wanted), "global_scale"});
  } else {
    const std::string least = body.Scalar(std::numeric_limits<float>::min());
    scale = body.Call("Max", {body.Call("Div", {amax, "target"}), least});
    if (how.power_of_two) scale = AddSearchedRounding(body, PowersOfTwo(), scale);
    scale = body.Call("Where", {body.Call("Less", {zero, amax}), scale, body.Scalar(1)});
  }
  if (how.grouped) {
    onnx::NodeProto gather = MakeNode("Gather", {scale, groups.places}, {"y"});
    SetAttribute(&gather, "axis", how.axis);
    *function.add_node() = std::move(gather);
  } else {
    *function.add_node() = MakeNode("Identity", {scale}, {"y"});
  }
  return function;
}

}  // namespace hif8
