// Layouts: how a quantized checkpoint's tensors and settings stand in files, for the loaders that
// read them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/enum_names.h"

namespace hif8 {

enum class LayoutKind { kCompressedTensors, kCann, kAscendV1 };
template <>
inline constexpr EnumTable<LayoutKind, 3> kEnumNames<LayoutKind>{
    {{LayoutKind::kCompressedTensors, "compressed-tensors"},
     {LayoutKind::kCann, "cann"},
     {LayoutKind::kAscendV1, "ascendv1"}}};

}  // namespace hif8
