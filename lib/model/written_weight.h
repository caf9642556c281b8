// A quantized weight as it stands in a file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/model.h"

namespace hif8 {

// Holds an EncodedWeight whose codes are mapped, or were unpacked.
struct WrittenWeight {
  std::string format;
  TileLayout layout;
  std::vector<float> scales;
  std::span<const uint8_t> codes;
  std::shared_ptr<const void> owner;  // of the codes

  explicit WrittenWeight(EncodedWeight encoded)
      : format(std::move(encoded.format)),
        layout(std::move(encoded.layout)),
        scales(std::move(encoded.scales)) {
    auto held = std::make_shared<const std::vector<uint8_t>>(std::move(encoded.codes));
    codes = *held;
    owner = std::move(held);
  }
};

}  // namespace hif8
