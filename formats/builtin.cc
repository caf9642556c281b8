#include "formats/builtin.h"

#include "formats/hif8.h"

namespace hif8 {

const FormatRegistry& BuiltinFormats() {
  static const FormatRegistry registry = [] {
    FormatRegistry formats("number format");
    for (const auto& make : {MakeHif8Format}) {
      auto format = make();
      formats.Add(std::string(format->name()), format);
    }
    return formats;
  }();
  return registry;
}

}  // namespace hif8
