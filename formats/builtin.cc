#include "formats/builtin.h"

#include <initializer_list>

#include "formats/fp8.h"
#include "formats/hif8.h"
#include "formats/int8.h"
#include "formats/mx.h"
#include "formats/nvfp4.h"

namespace hif8 {
namespace {

using Make = std::shared_ptr<const NumberFormat> (*)();

void AddTo(FormatRegistry* formats, std::initializer_list<Make> makers) {
  for (const Make make : makers) {
    auto format = make();
    formats->Add(std::string(format->name()), format);
  }
}

FormatRegistry MakeRegistry(bool stored) {
  FormatRegistry formats("number format");
  AddTo(&formats, {MakeHif8Format, MakeFp8E4M3Format, MakeFp8E5M2Format, MakeFp8E4M3BlockFormat,
                   MakeMxfp8Format, MakeMxfp4Format, MakeNvfp4Format, MakeInt8Format});
  if (stored) AddTo(&formats, {MakeFp4Format, MakeInt4Format});
  return formats;
}

}  // namespace

const FormatRegistry& BuiltinFormats() {
  static const FormatRegistry registry = MakeRegistry(false);
  return registry;
}

const FormatRegistry& StoredFormats() {
  static const FormatRegistry registry = MakeRegistry(true);
  return registry;
}

}  // namespace hif8
