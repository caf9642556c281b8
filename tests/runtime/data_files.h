// Writes small data files for the tests of the dataset, by code that shares nothing with its
// readers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lib/core/tensor.h"

namespace hif8 {

// A folder of its own, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::string string() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The bytes of a version 1 .npy file; `descr` as NumPy writes it.
std::string NpyBytes(const std::string& descr, const Shape& shape, const std::string& data);
std::string NpyFloats(const Shape& shape, const std::vector<float>& values);
std::string NpyInts(const Shape& shape, const std::vector<int64_t>& values);
// first, first + 1, ... as fp32.
std::string NpyCount(const Shape& shape, float first = 0);

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void WriteBytes(const std::filesystem::path& path, const std::string& bytes);
std::string ReadBytes(const std::filesystem::path& path);

struct ZipEntry {
  std::string name;
  std::string bytes;
};
void WriteZip(const std::filesystem::path& path, const std::vector<ZipEntry>& entries,
              bool deflate = false);

// 8-bit channels, row by row; the kind follows the extension (png, jpg, bmp).
void WriteImage(const std::filesystem::path& path, int width, int height, int channels,
                const std::vector<uint8_t>& pixels);

}  // namespace hif8
