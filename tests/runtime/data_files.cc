#include "tests/runtime/data_files.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <gtest/gtest.h>
#include <stb/stb_image_write.h>
#include <unistd.h>
#include <zip.h>

#include <atomic>
#include <fstream>
#include <numeric>
#include <sstream>

namespace hif8 {

TempFolder::TempFolder() {
  static std::atomic<int> counter{0};
  path_ = std::filesystem::path(testing::TempDir()) /
          ("data_" + std::to_string(getpid()) + "_" + std::to_string(counter++));
  std::filesystem::create_directories(path_);
}
TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

std::string NpyBytes(const std::string& descr, const Shape& shape, const std::string& data) {
  std::string tuple = "(";
  for (const int64_t d : shape) tuple += std::to_string(d) + ",";
  tuple += ")";
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + tuple + ", }";
  while ((header.size() + 11) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + data;
}

std::string NpyFloats(const Shape& shape, const std::vector<float>& values) {
  return NpyBytes("<f4", shape, Bytes(values));
}

std::string NpyInts(const Shape& shape, const std::vector<int64_t>& values) {
  return NpyBytes("<i8", shape, Bytes(values));
}

std::string NpyCount(const Shape& shape, float first) {
  std::vector<float> values(ElementCount(shape));
  std::iota(values.begin(), values.end(), first);
  return NpyFloats(shape, values);
}

void WriteBytes(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string ReadBytes(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void WriteZip(const std::filesystem::path& path, const std::vector<ZipEntry>& entries,
              bool deflate) {
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  ASSERT_NE(archive, nullptr) << error;
  for (const ZipEntry& entry : entries) {
    zip_source_t* source = zip_source_buffer(archive, entry.bytes.data(), entry.bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive, entry.name.c_str(), source, 0);
    ASSERT_GE(index, 0);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index),
                             deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

void WriteImage(const std::filesystem::path& path, int width, int height, int channels,
                const std::vector<uint8_t>& pixels) {
  const std::string extension = path.extension();
  int written = 0;
  if (extension == ".png") {
    written = stbi_write_png(path.c_str(), width, height, channels, pixels.data(), 0);
  } else if (extension == ".bmp") {
    written = stbi_write_bmp(path.c_str(), width, height, channels, pixels.data());
  } else {
    written = stbi_write_jpg(path.c_str(), width, height, channels, pixels.data(), 95);
  }
  ASSERT_NE(written, 0);
}

}  // namespace hif8
