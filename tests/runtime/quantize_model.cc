#include "tests/runtime/quantize_model.h"

#include <bit>
#include <cmath>

#include "formats/hif8.h"

namespace hif8 {

TestGraph QuantizeModel(const Shape& x, const Shape& scale) {
  TestGraph g;
  auto* import = g.model().add_opset_import();
  import->set_domain("ai.hif8");
  import->set_version(1);
  g.Input("x", x).Input("scale", scale).Output("y", x);
  g.Node("QuantizeDequantizeLinear", {"x", "scale"}, {"y"}, "ai.hif8");
  auto* function = g.model().add_functions();
  function->set_domain("ai.hif8");
  function->set_name("QuantizeDequantizeLinear");
  function->add_input("x");
  function->add_input("scale");
  function->add_output("y");
  auto* opset = function->add_opset_import();
  opset->set_domain("");
  opset->set_version(17);
  auto* node = function->add_node();
  node->set_op_type("Neg");
  node->add_input("x");
  node->add_output("y");
  return g;
}

std::vector<float> ManyFloats() {
  std::vector<float> values;
  for (uint32_t low : {0u, 0x7fffu, 0x8000u, 0x1234u}) {
    for (uint32_t high = 0; high < 0x10000; ++high) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  return values;
}

float ExpectedHif8(float x, float scale) {
  if (std::isnan(x) || std::isinf(x)) return x;
  const float scaled = x / scale;
  // A finite value saturates, also where the division leaves the range of fp32.
  if (std::isinf(scaled)) return std::copysign(32768.0f, x) * scale;
  return DecodeHif8(EncodeHif8(scaled, Overflow::kSaturate)) * scale;
}

}  // namespace hif8
