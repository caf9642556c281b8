#include "lib/core/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/mapped_file.h"

namespace hif8 {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// Far above what any array of plain elements needs; a damaged length field must not matter.
constexpr size_t kMaxHeader = 1 << 16;
constexpr size_t kMaxRank = 64;  // NumPy 2's own limit

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

// Parses the header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Header Parse() {
    Header header;
    Expect('{');
    while (!Accept('}')) {
      const std::string key = String();
      Expect(':');
      if (key == "descr" && !header.descr) {
        header.descr = Descr();
      } else if (key == "fortran_order" && !header.fortran_order) {
        header.fortran_order = Bool();
      } else if (key == "shape" && !header.shape) {
        header.shape = Tuple();
      } else {
        Fail("the unexpected or repeated key '" + key + "'");
      }
      if (!Accept(',')) {
        Expect('}');
        break;
      }
    }
    SkipSpaces();
    if (pos_ != text_.size()) Fail("text after the dictionary");
    if (!header.descr || !header.fortran_order || !header.shape) {
      Fail("a dictionary without one of descr, fortran_order, shape");
    }
    return header;
  }

 private:
  [[noreturn]] void Fail(const std::string& found) const {
    throw ModelError(
        "the .npy header should be a dictionary of descr, fortran_order and shape, found " + found +
            " (character " + std::to_string(pos_) + ")",
        "write the file again with numpy.save", where_);
  }

  void SkipSpaces() {
    while (pos_ < text_.size() && std::string_view(" \n\t\r").find(text_[pos_]) < 4) ++pos_;
  }
  bool Accept(char c) {
    SkipSpaces();
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Fail(std::string("no '") + c + "'");
  }
  bool AcceptWord(std::string_view word) {
    SkipSpaces();
    if (text_.substr(pos_, word.size()) != word) return false;
    pos_ += word.size();
    return true;
  }

  std::string String() {
    const char quote = Accept('\'') ? '\'' : '"';
    if (quote == '"') Expect('"');
    const size_t end = text_.find(quote, pos_);
    if (end == std::string_view::npos) Fail("a string without end");
    std::string value(text_.substr(pos_, end - pos_));
    if (value.find('\\') != std::string::npos) Fail("an escape in a string");
    pos_ = end + 1;
    return value;
  }

  std::string Descr() {
    SkipSpaces();
    if (pos_ < text_.size() && text_[pos_] == '[') {
      throw ModelError("expected an array of numbers, found one of structures (fields)",
                       "save each field as an array of its own", where_);
    }
    return String();
  }

  bool Bool() {
    if (AcceptWord("True")) return true;
    if (AcceptWord("False")) return false;
    Fail("fortran_order that is neither True nor False");
  }

  int64_t Dimension() {
    SkipSpaces();
    int64_t value = 0;
    const size_t begin = pos_;
    for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_) {
      if (value > (std::numeric_limits<int64_t>::max() - 9) / 10) Fail("a dimension above 2^63");
      value = value * 10 + (text_[pos_] - '0');
    }
    if (pos_ == begin) Fail("a dimension that is no number");
    if (pos_ < text_.size() && text_[pos_] == 'L') ++pos_;  // as Python 2 wrote it
    return value;
  }

  Shape Tuple() {
    Shape shape;
    Expect('(');
    while (!Accept(')')) {
      if (shape.size() == kMaxRank) Fail("more than 64 dimensions");
      shape.push_back(Dimension());
      if (!Accept(',')) {
        // (3) would be a number, but nothing else can be meant.
        Expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  const std::string& where_;
  size_t pos_ = 0;
};

DType ParseDescr(const std::string& descr, const std::string& where) {
  static constexpr std::array<std::pair<std::string_view, DType>, 12> kTypes = {
      {{"b1", DType::kBool},
       {"u1", DType::kU8},
       {"i1", DType::kI8},
       {"u2", DType::kU16},
       {"i2", DType::kI16},
       {"f2", DType::kF16},
       {"u4", DType::kU32},
       {"i4", DType::kI32},
       {"f4", DType::kF32},
       {"u8", DType::kU64},
       {"i8", DType::kI64},
       {"f8", DType::kF64}}};
  const char order = descr.empty() ? '?' : descr[0];
  const std::string_view name = std::string_view(descr).substr(descr.empty() ? 0 : 1);
  const auto* const type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.first == name; });
  const std::string found = "found '" + descr + "'";
  const bool known_order = order == '<' || order == '>' ||
                           (order == '|' && type != kTypes.end() && DTypeSize(type->second) == 1);
  if (type == kTypes.end() || !known_order) {
    throw ModelError("expected elements of a boolean, integer or floating-point type, " + found,
                     "convert with a.astype(...) before numpy.save", where);
  }
  return type->second;
}

// The number of bytes of the data, or nothing when it does not fit 63 bits. Zeros are skipped: the
// product of the other dimensions must be sane even where the array is empty.
std::optional<uint64_t> DataBytes(const Shape& shape, size_t element_size) {
  uint64_t n = element_size;
  bool empty = false;
  for (const int64_t dim : shape) {
    const auto d = static_cast<uint64_t>(dim);
    if (d == 0) {
      empty = true;
    } else if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / d) {
      return std::nullopt;
    } else {
      n *= d;
    }
  }
  return empty ? 0 : n;
}

// The header's text; `*data` receives the offset of the first element.
std::string_view HeaderText(std::string_view file, const std::string& where, size_t* data) {
  if (file.size() < 10 || !file.starts_with(kMagic)) {
    throw ModelError("expected a .npy array, found a file that does not begin as one",
                     "write it with numpy.save", where);
  }
  const int version = static_cast<uint8_t>(file[6]);
  if (version < 1 || version > 3) {
    throw ModelError("expected .npy version 1, 2 or 3, found " + std::to_string(version),
                     "write it with numpy.save", where);
  }
  const size_t field = version == 1 ? 2 : 4;
  const size_t begin = kMagic.size() + 2 + field;
  size_t length = 0;
  for (size_t i = 0; i < field && begin <= file.size(); ++i) {
    length |= static_cast<size_t>(static_cast<uint8_t>(file[8 + i])) << (8 * i);
  }
  if (begin > file.size() || length > file.size() - begin || length > kMaxHeader) {
    throw ModelError("the .npy header of " + std::to_string(length) +
                         " bytes does not fit into the file of " + std::to_string(file.size()) +
                         " bytes (at most 65536 are accepted)",
                     "the file is truncated or damaged", where);
  }
  *data = begin + length;
  return file.substr(begin, length);
}

}  // namespace

NpyHeader ParseNpyHeader(std::span<const std::byte> begin, const std::string& where) {
  const std::string_view file(reinterpret_cast<const char*>(begin.data()), begin.size());
  NpyHeader result;
  const Header header = HeaderParser(HeaderText(file, where, &result.data_offset), where).Parse();
  result.dtype = ParseDescr(*header.descr, where);
  result.shape = *header.shape;
  const auto above_one =
      std::count_if(header.shape->begin(), header.shape->end(), [](int64_t d) { return d > 1; });
  result.fortran_order = *header.fortran_order && above_one > 1;
  result.big_endian = header.descr->starts_with('>') && DTypeSize(result.dtype) > 1;
  const std::optional<uint64_t> bytes = DataBytes(*header.shape, DTypeSize(result.dtype));
  if (!bytes) {
    throw ModelError("an array of shape " + ShapeText(*header.shape) + " and type " +
                         std::string(DTypeName(result.dtype)) + " needs more than 2^63 bytes",
                     "the file is truncated or damaged", where);
  }
  result.data_bytes = *bytes;
  return result;
}

void SwapBytes(DType dtype, size_t n, std::byte* data) {
  const size_t size = DTypeSize(dtype);
  for (size_t i = 0; i < n; ++i) std::reverse(data + i * size, data + (i + 1) * size);
}

void CopyInUsualOrder(const NpyHeader& header, const std::byte* stored, std::byte* to) {
  const size_t size = DTypeSize(header.dtype);
  const size_t n = header.data_bytes / size;
  if (!header.fortran_order) {
    std::copy_n(stored, header.data_bytes, to);
  } else {
    // Counts through the indices, the last dimension first.
    const size_t rank = header.shape.size();
    std::vector<size_t> strides(rank, size);
    for (size_t d = 1; d < rank; ++d) {
      strides[d] = strides[d - 1] * static_cast<size_t>(header.shape[d - 1]);
    }
    std::vector<int64_t> index(rank, 0);
    size_t from = 0;
    for (size_t i = 0; i < n; ++i) {
      std::copy_n(stored + from, size, to + i * size);
      for (size_t d = rank; d-- > 0;) {
        from += strides[d];
        if (++index[d] < header.shape[d]) break;
        from -= strides[d] * static_cast<size_t>(header.shape[d]);
        index[d] = 0;
      }
    }
  }
  if (header.big_endian) SwapBytes(header.dtype, n, to);
}

Tensor ParseNpy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                const std::string& where) {
  const NpyHeader header = ParseNpyHeader(bytes, where);
  if (header.data_bytes != bytes.size() - header.data_offset) {
    throw ModelError("an array of shape " + ShapeText(header.shape) + " and type " +
                         std::string(DTypeName(header.dtype)) + " needs " +
                         std::to_string(header.data_bytes) + " bytes of data, the file has " +
                         std::to_string(bytes.size() - header.data_offset),
                     "the file is truncated or damaged", where);
  }
  const std::byte* const stored = bytes.data() + header.data_offset;
  if (header.usual()) return {{header.dtype, header.shape, stored}, std::move(owner)};
  std::byte* copy = nullptr;
  Tensor tensor = Tensor::Allocate(header.dtype, header.shape, &copy);
  CopyInUsualOrder(header, stored, copy);
  return tensor;
}

Tensor ReadNpy(const std::filesystem::path& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::Open(path);
  return ParseNpy(file->bytes(), file, path.string());
}

}  // namespace hif8
