// The JSON header of a safetensors file, as text and as values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/safetensors/safetensors_file.h"

namespace hif8 {

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the header's order, offsets as they are
  SafetensorsMetadata metadata;
  bool has_metadata = false;
};

// Throws kModel for anything but an object of tensors (dtype, shape, data_offsets) and
// `__metadata__` (strings). Memory is bounded by a small multiple of the text.
SafetensorsHeader ParseSafetensorsHeader(std::string_view text, const std::string& where);

// The header of these tensors, padded with spaces so that the data begins at a multiple of 8.
std::string FormatSafetensorsHeader(std::span<const SafetensorsEntry> tensors,
                                    const SafetensorsMetadata* metadata);

}  // namespace hif8
