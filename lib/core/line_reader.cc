#include "lib/core/line_reader.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/mapped_file.h"

namespace hif8 {

// Pieces of text, one behind the other.
class LineReader::Source {
 public:
  virtual ~Source() = default;
  // Returns the next piece, valid until the next call; an empty one at the end.
  virtual std::string_view Next() = 0;
  // Returns whether it is known that Next() has no more.
  virtual bool ended() const { return false; }
};

namespace {

constexpr size_t kPiece = size_t{1} << 20;
constexpr size_t kLongestLine = size_t{1} << 28;

std::string_view Chars(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void Damaged(const std::string& how, const std::string& where) {
  throw ModelError("the compressed data cannot be read: " + how,
                   "the file is damaged or not complete; get it again", where);
}

class Plain : public LineReader::Source {
 public:
  explicit Plain(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}
  std::string_view Next() override {
    return std::exchange(ended_, true) ? "" : Chars(file_->bytes());
  }
  bool ended() const override { return ended_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  bool ended_ = false;
};

// Members of a gzip file (RFC 1952), one behind the other.
class Gzip : public LineReader::Source {
 public:
  Gzip(std::shared_ptr<const MappedFile> file, std::string where)
      : file_(std::move(file)),
        where_(std::move(where)),
        rest_(Chars(file_->bytes())),
        out_(kPiece) {
    constexpr int kWindowOfGzip = 15 + 16;
    if (inflateInit2(&stream_, kWindowOfGzip) != Z_OK) Damaged("zlib has no memory", where_);
  }
  ~Gzip() override { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  std::string_view Next() override {
    size_t made = 0;
    while (made == 0 && !ended_) {
      const auto given = static_cast<uInt>(std::min(rest_.size(), kPiece));
      // zlib does not write to its input.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
      stream_.avail_in = given;
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      rest_.remove_prefix(given - stream_.avail_in);
      made = out_.size() - stream_.avail_out;
      if (status == Z_STREAM_END) {
        // What is no further member is filling.
        ended_ = !rest_.starts_with("\x1f\x8b") || inflateReset(&stream_) != Z_OK;
      } else if (status == Z_BUF_ERROR && rest_.empty()) {
        Damaged("it ends in the middle", where_);
      } else if (status != Z_OK) {
        Damaged(stream_.msg == nullptr ? "zlib's error " + std::to_string(status) : stream_.msg,
                where_);
      }
    }
    return {out_.data(), made};
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::string where_;
  std::string_view rest_;
  std::vector<char> out_;
  z_stream stream_{};
  bool ended_ = false;
};

// Frames of zstd (RFC 8878).
class Zstd : public LineReader::Source {
 public:
  Zstd(std::shared_ptr<const MappedFile> file, std::string where)
      : file_(std::move(file)), where_(std::move(where)), out_(kPiece) {
    if (stream_ == nullptr) Damaged("zstd has no memory", where_);
    in_ = {file_->bytes().data(), file_->bytes().size(), 0};
  }

  std::string_view Next() override {
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size && whole_) return {};
      const size_t before = in_.pos;
      const size_t left = ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (ZSTD_isError(left) != 0) Damaged(ZSTD_getErrorName(left), where_);
      whole_ = left == 0;
      if (out.pos == 0 && in_.pos == before && !whole_) Damaged("it ends in the middle", where_);
    }
    return {out_.data(), out.pos};
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };

  std::shared_ptr<const MappedFile> file_;
  std::string where_;
  std::vector<char> out_;
  std::unique_ptr<ZSTD_DStream, Free> stream_{ZSTD_createDStream()};
  ZSTD_inBuffer in_{};
  bool whole_ = false;  // nothing of a frame is missing
};

std::unique_ptr<LineReader::Source> OpenSource(const std::filesystem::path& path,
                                               const std::string& where) {
  std::shared_ptr<const MappedFile> file = MappedFile::Open(path);
  const std::string_view text = Chars(file->bytes());
  if (text.starts_with("\x1f\x8b")) return std::make_unique<Gzip>(std::move(file), where);
  if (text.starts_with("\x28\xb5\x2f\xfd")) return std::make_unique<Zstd>(std::move(file), where);
  return std::make_unique<Plain>(std::move(file));
}

}  // namespace

LineReader::LineReader(const std::filesystem::path& path)
    : where_(path.string()), source_(OpenSource(path, where_)) {}

LineReader::~LineReader() = default;

bool LineReader::Fill() {
  if (source_->ended()) return false;
  std::string kept(left_);  // a source uses the memory of its pieces again
  const std::string_view piece = source_->Next();
  if (kept.empty()) {
    left_ = piece;
    return !piece.empty();
  }
  buffer_ = std::move(kept);
  buffer_ += piece;
  left_ = buffer_;
  return !piece.empty();
}

std::optional<std::string_view> LineReader::Next() {
  size_t searched = 0;
  size_t end = std::string_view::npos;
  while ((end = left_.find('\n', searched)) == std::string_view::npos) {
    searched = left_.size();
    if (searched > kLongestLine) {
      throw ModelError("expected lines of up to 256 MiB in a compressed file, found a longer one",
                       "give one JSON object per line", where_);
    }
    if (Fill()) continue;
    if (left_.empty()) return std::nullopt;
    end = left_.size();
    break;
  }
  const std::string_view line = left_.substr(0, end);
  left_.remove_prefix(std::min(end + 1, left_.size()));
  return line;
}

std::string_view LineReader::Rest() {
  while (Fill()) continue;
  return std::exchange(left_, {});
}

}  // namespace hif8
