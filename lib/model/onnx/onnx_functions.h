// How a number format is written into an ONNX file: two model-local functions in a domain of its
// own give codes and rounding their meaning in standard operators, so that any runtime can run the
// file.
//   DequantizeLinear(codes, scale) -> y             table[codes] * scale (and a global scale, where
//                                                   the format has one)
//   QuantizeDequantizeLinear(x, scale) -> y         x / scale rounded to the format's grid, * scale
// Tensors are fp32 (codes UINT8); scales are shaped to broadcast.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/numeric/number_format.h"

namespace hif8 {

inline constexpr std::string_view kDequantizeFunction = "DequantizeLinear";
inline constexpr std::string_view kQuantizeDequantizeFunction = "QuantizeDequantizeLinear";
inline constexpr int64_t kFunctionVersion = 1;
// The bodies use only what is the same in every operator set since this one.
inline constexpr int64_t kFunctionOpset = 9;

// Returns the functions' domain: "ai." and the format's name.
std::string FunctionDomain(std::string_view format);
// Returns the format's name, or "" when the domain is none of these.
std::string_view FormatOfDomain(std::string_view domain);

// Standard operators that belong to a format say so in their description: "DOMAIN:text". What
// dequantizes a weight has its name as text, what clips an activation kLimitMark.
inline constexpr std::string_view kLimitMark = "limit";
struct OperatorMark {
  std::string format;  // empty: no such description
  std::string text;
};
std::string OperatorMarkText(const OperatorMark& mark);
OperatorMark ParseOperatorMark(std::string_view description);

}  // namespace hif8
