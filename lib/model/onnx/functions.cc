#include "lib/model/onnx/functions.h"

#include <cmath>
#include <limits>

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
    onnx::AttributeProto* attribute =
        function_.mutable_node(function_.node_size() - 1)->add_attribute();
    attribute->set_name("value");
    attribute->set_type(onnx::AttributeProto::TENSOR);
    *attribute->mutable_t() = tensor;
    return name;
  }
  std::string Scalar(float value) {
    return Constant(MakeTensor("", {}, std::vector<float>{value}));
  }
  std::string Integer(int32_t value) { return Constant(MakeTensor("", {}, DType::kI32, &value)); }

 private:
  std::string Next() { return "v" + std::to_string(count_++); }

  onnx::FunctionProto& function_;
  int count_ = 0;
};

onnx::FunctionProto NewFunction(const NumberFormat& format, std::string_view name,
                                const char* input, const char* text) {
  onnx::FunctionProto function;
  function.set_name(std::string(name));
  function.set_domain(FunctionDomain(format.name()));
  function.set_doc_string(text);
  function.add_input(input);
  function.add_input("scale");
  function.add_output("y");
  return function;
}

// The exponent of a magnitude within [zero_below, clamp]. Log may be off by one near a power of
// two, which the comparisons with the powers themselves put right.
std::string AddExponent(Body& body, const BandedGrid& grid, const std::string& a) {
  const std::string log2 = body.Call("Mul", {body.Call("Log", {a}), body.Scalar(1.44269504F)});
  const std::string guess = body.Call("Floor", {log2});
  const std::string two = body.Scalar(2), one = body.Scalar(1);
  const std::string above = body.Call("Pow", {two, body.Call("Add", {guess, one})});
  const std::string below = body.Call("Pow", {two, guess});
  const std::string up = body.Number(body.Call("Not", {body.Call("Less", {a, above})}));
  const std::string down = body.Number(body.Call("Less", {a, below}));
  const std::string exponent = body.Call("Sub", {body.Call("Add", {guess, up}), down});
  return body.Call("Max", {exponent, body.Scalar(static_cast<float>(grid.least_exponent))});
}

// The rounded magnitude; `magnitude` may be infinite.
std::string AddBandedRounding(Body& body, const BandedGrid& grid, const std::string& magnitude) {
  const std::string zero_below = body.Scalar(grid.zero_below);
  const std::string a =
      body.Call("Max", {body.Call("Min", {magnitude, body.Scalar(grid.clamp)}), zero_below});
  const std::string e = AddExponent(body, grid, a);
  const std::string size = body.Call("Abs", {e});
  std::string bits = body.Scalar(static_cast<float>(grid.fraction_bits));
  for (const int edge : grid.edges) {
    const std::string beyond = body.Call("Greater", {size, body.Scalar(static_cast<float>(edge))});
    bits = body.Call("Sub", {bits, body.Number(beyond)});
  }
  const std::string step = body.Call("Pow", {body.Scalar(2), body.Call("Sub", {e, bits})});
  const std::string half = body.Call("Add", {body.Call("Div", {a, step}), body.Scalar(0.5F)});
  const std::string rounded = body.Call("Mul", {body.Call("Floor", {half}), step});
  const std::string most = body.Call("Min", {rounded, body.Scalar(grid.most)});
  const std::string small = body.Call("Less", {magnitude, zero_below});
  return body.Call("Where", {small, body.Scalar(0), most});
}

// Binary search for the number of thresholds that the magnitude reaches.
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

}  // namespace

std::string FunctionDomain(std::string_view format) {
  return std::string(kDomainPrefix) + std::string(format);
}

std::string_view FormatOfDomain(std::string_view domain) {
  if (!domain.starts_with(kDomainPrefix) || domain.starts_with("ai.onnx")) return {};
  return domain.substr(kDomainPrefix.size());
}

onnx::FunctionProto MakeDequantizeFunction(const NumberFormat& format, int64_t opset) {
  onnx::FunctionProto function =
      NewFunction(format, kDequantizeFunction, "codes", "y = table[codes] * scale");
  Body body(&function, opset);
  const std::span<const float> table = format.DecodeTable();
  const std::string values = body.Constant(MakeTensor(
      "", {static_cast<int64_t>(table.size())}, std::vector<float>(table.begin(), table.end())));
  const std::string index = body.Cast("codes", onnx::TensorProto::INT32);
  body.Call("Mul", {body.Call("Gather", {values, index}), "scale"}, "y");
  return function;
}

onnx::FunctionProto MakeQuantizeDequantizeFunction(const NumberFormat& format, int64_t opset) {
  onnx::FunctionProto function =
      NewFunction(format, kQuantizeDequantizeFunction, "x",
                  "x / scale rounded to the nearest value of the number format, saturating, times "
                  "scale; infinities and NaN stay");
  Body body(&function, opset);
  const std::string scaled = body.Call("Div", {"x", "scale"});
  const std::string magnitude = body.Call("Abs", {scaled});
  const RoundingTable table = MakeRoundingTable(format);
  const std::optional<BandedGrid> grid = FindBandedGrid(format, table);
  const std::string rounded = grid ? AddBandedRounding(body, *grid, magnitude)
                                   : AddSearchedRounding(body, table, magnitude);
  // What rounds to zero is +0: 0 - 0 for either sign.
  const std::string zero = body.Scalar(0);
  const std::string negative = body.Call("Less", {scaled, zero});
  const std::string opposite = body.Call("Sub", {zero, rounded});
  const std::string result =
      body.Call("Mul", {body.Call("Where", {negative, opposite, rounded}), "scale"});
  // False for infinities and NaN.
  const std::string finite = body.Call(
      "Less", {body.Call("Abs", {"x"}), body.Scalar(std::numeric_limits<float>::infinity())});
  body.Call("Where", {finite, result, "x"}, "y");
  return function;
}

}  // namespace hif8
