// Lines of a text file that may be compressed.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hif8 {

// Reads a file line by line: as it is, or what gzip or zstd made of it, which its first bytes tell.
// Memory holds a line, however long the file is.
class LineReader {
 public:
  // Throws as MappedFile::Open.
  explicit LineReader(const std::filesystem::path& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Returns the next line without its line break; nothing at the end. Valid until the next call.
  // Throws kModel for damaged or truncated data, and for a line of more than 256 MiB that is
  // compressed.
  std::optional<std::string_view> Next();
  // Returns all that is left. Throws as Next() does.
  std::string_view Rest();

  class Source;

 private:
  // Adds a piece to what is left; false at the end.
  bool Fill();

  std::string where_;
  std::unique_ptr<Source> source_;
  std::string buffer_;     // holds a line that came in several pieces
  std::string_view left_;  // of it, or of a piece
};

}  // namespace hif8
