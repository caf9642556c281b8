#include "formats/builtin.h"

#include "formats/fp8.h"
#include "formats/hif8.h"
#include "formats/int8.h"
#include "formats/mx.h"

namespace hif8 {

const FormatRegistry& BuiltinFormats() {
  static const FormatRegistry registry = [] {
    FormatRegistry formats("number format");
    for (const auto& make :
         {MakeHif8Format, MakeFp8E4M3Format, MakeFp8E5M2Format, MakeFp8E4M3BlockFormat,
          MakeMxfp8Format, MakeMxfp4Format, MakeInt8Format}) {
      auto format = make();
      formats.Add(std::string(format->name()), format);
    }
    return formats;
  }();
  return registry;
}

}  // namespace hif8
