#include "lib/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/core/error.h"

namespace hif8 {

std::shared_ptr<const MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  // Without blocking: a named pipe is refused below, not waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    throw ModelError("cannot open the file: " + std::string(std::strerror(errno)),
                     "check the path and its permissions", path.string());
  }
  std::shared_ptr<MappedFile> file(new MappedFile());
  file->path_ = path;
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw ModelError("expected a regular file", "give a file, not a folder or a device",
                     path.string());
  }
  file->size_ = static_cast<size_t>(info.st_size);
  if (file->size_ > 0) {
    void* data = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    if (data == MAP_FAILED) {
      ::close(fd);
      throw EnvironmentError("cannot map the file: " + std::string(std::strerror(error)),
                             "copy the file to a local disk and try again", path.string());
    }
    file->data_ = static_cast<const std::byte*>(data);
  }
  ::close(fd);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace hif8
