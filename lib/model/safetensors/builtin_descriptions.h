// The files of arch/ as the build put them into the program.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace hif8 {

// File names and texts, by name.
std::span<const std::pair<std::string_view, std::string_view>> BuiltinDescriptionTexts();

}  // namespace hif8
