// Small checkpoints made in a test, and readers of what was written that share nothing with the
// code under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/safetensors/raw_file.h"

namespace hif8::test {

struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

inline std::string FileOf(const std::vector<RawTensor>& tensors,
                          const std::string& metadata = R"({"format":"pt"})") {
  std::string header = "{\"__metadata__\":" + metadata;
  std::string data;
  for (const RawTensor& t : tensors) {
    header += ",\"" + t.name + "\":{\"dtype\":\"" + t.dtype +
              "\",\"shape\":" + nlohmann::json(t.shape).dump() + ",\"data_offsets\":[" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + t.data.size()) +
              "]}";
    data += t.data;
  }
  return RawSafetensors(header + "}", data);
}

// The tensors of a file, in the header's order.
inline std::vector<RawTensor> TensorsOf(const std::filesystem::path& path) {
  const std::string bytes = ReadBytes(path);
  uint64_t n = 0;
  std::memcpy(&n, bytes.data(), 8);
  const auto header = nlohmann::ordered_json::parse(bytes.substr(8, n));
  std::vector<RawTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto begin = entry["data_offsets"][0].get<size_t>();
    const auto end = entry["data_offsets"][1].get<size_t>();
    tensors.push_back({name, entry["dtype"], entry["shape"].get<std::vector<int64_t>>(),
                       bytes.substr(8 + n + begin, end - begin)});
  }
  return tensors;
}

inline std::map<std::string, RawTensor> ByName(const std::vector<RawTensor>& tensors) {
  std::map<std::string, RawTensor> map;
  for (const RawTensor& t : tensors) map[t.name] = t;
  return map;
}

// Numbers of F32, BF16 or F8_E4M3 data.
inline std::vector<float> FloatsOf(const RawTensor& t) {
  std::vector<float> values;
  if (t.dtype == "F32") {
    values.resize(t.data.size() / 4);
    std::memcpy(values.data(), t.data.data(), t.data.size());
  } else if (t.dtype == "BF16") {
    for (size_t i = 0; i < t.data.size(); i += 2) {
      uint16_t half = 0;
      std::memcpy(&half, t.data.data() + i, 2);
      const uint32_t bits = uint32_t{half} << 16;
      float value = 0;
      std::memcpy(&value, &bits, 4);
      values.push_back(value);
    }
  }
  return values;
}

inline std::string F32Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
}

// fp32 to bf16, nearest even, finite values.
inline std::string Bf16Bytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    bits += 0x7FFF + (bits >> 16 & 1);
    bytes += static_cast<char>(bits >> 16 & 0xFF);
    bytes += static_cast<char>(bits >> 24);
  }
  return bytes;
}

}  // namespace hif8::test
