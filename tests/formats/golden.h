// Golden tables: byte i of a file is the code of the 16-bit pattern i.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace hif8 {

inline std::vector<uint8_t> ReadGolden(const std::string& name) {
  std::ifstream file(std::string(HIF8_TEST_DATA_DIR) + "/golden/" + name, std::ios::binary);
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(bytes.size(), 65536U) << name;
  return bytes;
}

}  // namespace hif8
