// NumPy's .npz: a zip archive of .npy files.
#include <zip.h>

#include <algorithm>
#include <new>

#include "lib/core/error.h"
#include "lib/core/memory.h"
#include "lib/core/npy.h"
#include "lib/runtime/data_file.h"

namespace hif8 {
namespace {

// Deflate makes at most 1032 bytes of one.
constexpr uint64_t kMaxRatio = 1100;
constexpr uint64_t kRatioFloor = 1 << 20;

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};

class NpzFile : public DataFile {
 public:
  explicit NpzFile(const std::filesystem::path& path) : path_(path.string()) {
    std::error_code ignored;
    if (const auto type = std::filesystem::status(path, ignored).type();
        type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::directory) {
      throw ModelError("expected a regular file", "give a file, not a folder or a pipe", path_);
    }
    int code = 0;
    archive_.reset(zip_open(path_.c_str(), ZIP_RDONLY, &code));
    if (archive_ == nullptr) {
      zip_error_t error;
      zip_error_init_with_code(&error, code);
      const std::string reason = zip_error_strerror(&error);
      zip_error_fini(&error);
      throw ModelError("expected an .npz archive: " + reason, "write it with numpy.savez", path_);
    }
    const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) AddEntry(static_cast<zip_uint64_t>(i));
  }

  Tensor Read(size_t array, size_t first, size_t count) override {
    Entry& entry = entries_[array];
    const Array& info = arrays_[array];
    Shape shape = info.shape;
    const uint64_t rows = shape.empty() ? 1 : static_cast<uint64_t>(shape[0]);
    if (!shape.empty()) shape[0] = static_cast<int64_t>(count);
    const uint64_t row_bytes = rows == 0 ? 0 : entry.header.data_bytes / rows;
    const std::string where = path_ + ":" + info.name;
    RequireMemory(count * row_bytes, MemoryLimit(), where,
                  std::to_string(count * row_bytes) + " bytes of an array");
    try {
      if (entry.header.fortran_order) {
        const Tensor& whole = Whole(&entry, where);
        return {{info.dtype, std::move(shape), whole.view.data + first * row_bytes}, whole.owner};
      }
      std::byte* data = nullptr;
      Tensor tensor = Tensor::Allocate(info.dtype, std::move(shape), &data);
      MoveTo(&entry, entry.header.data_offset + first * row_bytes, where);
      ReadBytes(&entry, data, count * row_bytes, where);
      if (entry.header.big_endian) SwapBytes(info.dtype, tensor.view.size(), data);
      if (first + count == rows) CheckEnd(&entry, where);
      return tensor;
    } catch (const std::bad_alloc&) {
      throw EnvironmentError("no memory for " + std::to_string(count * row_bytes) + " bytes",
                             "free memory, or save fewer samples in one file", where);
    }
  }

 private:
  struct Entry {
    zip_uint64_t index = 0;
    NpyHeader header;
    std::optional<Tensor> whole;  // of an array in Fortran order, whose rows lie apart
    std::unique_ptr<zip_file_t, CloseEntry> open;
    uint64_t position = 0;  // of `open`
  };

  void AddEntry(zip_uint64_t index) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(archive_.get(), index, 0, &stat) != 0 || (stat.valid & ZIP_STAT_NAME) == 0) {
      throw ModelError("the archive's directory is damaged", "write it again with numpy.savez",
                       path_);
    }
    std::string name = stat.name;
    if (!name.ends_with(".npy")) return;
    name.resize(name.size() - 4);
    const std::string where = path_ + ":" + name;
    for (const Array& array : arrays_) {
      if (array.name == name)
        throw ModelError("the archive holds this array twice", "write it again with numpy.savez",
                         where);
    }
    if (stat.size > kRatioFloor && stat.size / kMaxRatio > stat.comp_size) {
      throw ModelError("an entry claims to hold " + std::to_string(stat.size) + " bytes in " +
                           std::to_string(stat.comp_size) + " compressed ones",
                       "the file is damaged", where);
    }
    Entry entry;
    entry.index = index;
    std::vector<std::byte> begin(std::min<uint64_t>(stat.size, kMaxNpyHeader));
    MoveTo(&entry, 0, where);
    ReadBytes(&entry, begin.data(), begin.size(), where);
    entry.open = nullptr;
    const NpyHeader header = ParseNpyHeader(begin, where);
    if (header.data_bytes != stat.size - header.data_offset) {
      throw ModelError("an array of shape " + ShapeText(header.shape) + " and type " +
                           std::string(DTypeName(header.dtype)) + " needs " +
                           std::to_string(header.data_bytes) + " bytes of data, the archive has " +
                           std::to_string(stat.size - header.data_offset),
                       "the file is truncated or damaged", where);
    }
    entry.header = header;
    arrays_.push_back({name, header.dtype, header.shape});
    entries_.push_back(std::move(entry));
  }

  const Tensor& Whole(Entry* entry, const std::string& where) const {
    if (entry->whole) return *entry->whole;
    const NpyHeader& header = entry->header;
    RequireMemory(2 * header.data_bytes, MemoryLimit(), where,
                  "an array in Fortran order is put into C order as a whole");
    std::vector<std::byte> stored(header.data_bytes);
    MoveTo(entry, header.data_offset, where);
    ReadBytes(entry, stored.data(), stored.size(), where);
    CheckEnd(entry, where);
    std::byte* data = nullptr;
    entry->whole = Tensor::Allocate(header.dtype, header.shape, &data);
    CopyInUsualOrder(header, stored.data(), data);
    return *entry->whole;
  }

  // Compressed data can only be read forwards: from the start again, when that is needed.
  void MoveTo(Entry* entry, uint64_t position, const std::string& where) const {
    if (entry->open == nullptr || position < entry->position) {
      entry->open.reset(zip_fopen_index(archive_.get(), entry->index, 0));
      entry->position = 0;
      if (entry->open == nullptr) {
        throw ModelError(std::string("the array cannot be read: ") + zip_strerror(archive_.get()),
                         "write the archive again with numpy.savez", where);
      }
    }
    std::vector<std::byte> skipped(std::min<uint64_t>(position - entry->position, 1 << 16));
    while (entry->position < position) {
      ReadBytes(entry, skipped.data(),
                std::min<uint64_t>(skipped.size(), position - entry->position), where);
    }
  }

  static void ReadBytes(Entry* entry, std::byte* data, uint64_t size, const std::string& where) {
    while (size > 0) {
      const zip_int64_t got = zip_fread(entry->open.get(), data, size);
      if (got <= 0) {
        const std::string reason = got == 0 ? "it ends too early" : Reason(entry);
        throw ModelError("the array cannot be read: " + reason, "the file is truncated or damaged",
                         where);
      }
      data += got;
      size -= static_cast<uint64_t>(got);
      entry->position += static_cast<uint64_t>(got);
    }
  }

  // Reading past the end makes the library compare the checksum.
  static void CheckEnd(Entry* entry, const std::string& where) {
    std::byte none;
    if (zip_fread(entry->open.get(), &none, 1) != 0) {
      throw ModelError("the array cannot be read: " + Reason(entry), "the file is damaged", where);
    }
    entry->open = nullptr;
  }

  static std::string Reason(Entry* entry) { return zip_file_strerror(entry->open.get()); }

  std::string path_;
  std::unique_ptr<zip_t, CloseArchive> archive_;
  std::vector<Entry> entries_;
};

}  // namespace

std::unique_ptr<DataFile> OpenNpz(const std::filesystem::path& path) {
  return std::make_unique<NpzFile>(path);
}

}  // namespace hif8
