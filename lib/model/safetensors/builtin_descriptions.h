// The files of arch/ as the build put them into the program.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

namespace hif8 {

// File names and texts, by name.
extern const std::initializer_list<std::pair<std::string_view, std::string_view>>
    kBuiltinDescriptionTexts;

}  // namespace hif8
