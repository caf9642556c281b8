#include "lib/core/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/core/error.h"

namespace hif8 {
namespace {

class Descriptor {
 public:
  // Without blocking: a named pipe is refused, not waited for.
  explicit Descriptor(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }

 private:
  int fd_;
};

Error ReadError(const std::filesystem::path& path, int error) {
  return ModelError("cannot read the file: " + std::string(std::strerror(error)),
                    "check the path and its permissions", path.string());
}

// Appends up to `more` bytes; fewer at the end of the file.
void Append(const std::filesystem::path& path, int fd, size_t more, std::string* text) {
  size_t end = text->size();
  text->resize(end + more);
  const size_t wanted = text->size();
  while (end < wanted) {
    const ssize_t n = ::read(fd, text->data() + end, wanted - end);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw ReadError(path, errno);
    if (n == 0) break;
    end += static_cast<size_t>(n);
  }
  text->resize(end);
}

}  // namespace

std::string ReadFile(const std::filesystem::path& path, uint64_t limit) {
  const Descriptor file(path);
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) throw ReadError(path, errno);
  if (S_ISDIR(info.st_mode)) {
    throw ModelError("expected a file, found a directory", "give the file itself", path.string());
  }
  if (!S_ISREG(info.st_mode)) {
    throw ModelError("expected a regular file, found a pipe or a device",
                     "write what it gives to a file, and give that", path.string());
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > limit) {
    throw ModelError("the file has " + std::to_string(size) + " bytes, and at most " +
                         std::to_string(limit) + " are expected of its kind",
                     "is it the file that was meant?", path.string());
  }
  std::string text;
  Append(path, file.get(), static_cast<size_t>(size) + 1, &text);
  if (text.size() != size) {
    throw ModelError("the file was expected to hold " + std::to_string(size) + " bytes, found " +
                         (text.size() > size ? "more" : std::to_string(text.size())),
                     "give a file on a disk that nobody writes meanwhile", path.string());
  }
  return text;
}

void RequireNoLfsPointer(std::string_view text, const std::filesystem::path& path) {
  if (!text.starts_with("version https://git-lfs.github.com/spec/")) return;
  throw ModelError("expected the file itself, found a pointer of Git LFS to it",
                   "fetch the content: git lfs pull", path.string());
}

}  // namespace hif8
