#include "lib/core/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "lib/core/mapping_guard.h"

namespace hif8 {

Error WriteError(const std::filesystem::path& path, int error) {
  return EnvironmentError(std::string("cannot write: ") + std::strerror(error),
                          error == ENOSPC ? "free some space or choose another disk with -o"
                                          : "check that the folder exists and can be written",
                          path.string());
}

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  // What an earlier run left goes; a device, a pipe or a folder is nobody's to remove.
  struct stat status = {};
  if (::lstat(path_.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) throw WriteError(path_, EEXIST);
    if (::unlink(path_.c_str()) != 0 && errno != ENOENT) throw WriteError(path_, errno);
  }
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  fd_ = Retried([&] { return ::open(path_.c_str(), kNew, 0666); });
  if (fd_ < 0) throw WriteError(path_, errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::Write(std::span<const std::byte> bytes) {
  constexpr size_t kPiece = size_t{64} << 20;  // a signal is noticed between pieces
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kPiece));
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EFAULT) {  // the source was mapped and is gone: the guard tells which file
        TouchPages(bytes.data(), bytes.size());
        CheckMappings();
        errno = EFAULT;
      }
      throw WriteError(path_, errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    size_ += static_cast<uint64_t>(n);
    StartSync();
  }
}

// The disk begins with what is complete, so that Close() finds little left to wait for.
void OutputFile::StartSync() {
#ifdef __linux__
  constexpr uint64_t kStep = uint64_t{16} << 20;
  if (size_ - started_ < kStep) return;
  // Only a hint: what fails here fails in Close() again.
  ::sync_file_range(fd_, static_cast<off64_t>(started_), static_cast<off64_t>(size_ - started_),
                    SYNC_FILE_RANGE_WRITE);
  started_ = size_;
#endif
}

void OutputFile::Close() {
  int error = 0;
  if (Retried([&] { return ::fsync(fd_); }) != 0) error = errno;
  // An interrupted close has closed the file, whose contents are on the disk.
  if (::close(fd_) != 0 && errno != EINTR && error == 0) error = errno;
  fd_ = -1;
  if (error != 0) throw WriteError(path_, error);
}

void WriteFile(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.Write(text);
  file.Close();
}

}  // namespace hif8
