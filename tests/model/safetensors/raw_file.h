// Files built byte by byte, without the code under test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace hif8::test {

// A fresh folder that disappears with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hif8-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void WriteBytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string ReadBytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string LengthPrefix(uint64_t n) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(n >> (8 * i) & 0xFF);
  return text;
}

// The bytes of a safetensors file with this header and data.
inline std::string RawSafetensors(const std::string& header, const std::string& data) {
  return LengthPrefix(header.size()) + header + data;
}

}  // namespace hif8::test
