#include "lib/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "lib/core/error.h"
#include "lib/core/mapping_guard.h"

namespace hif8 {
namespace {

// Every file that is mapped. Never destroyed: objects that are may hold one.
struct OpenFiles {
  std::mutex mutex;
  std::unordered_set<const MappedFile*> files;
};
OpenFiles& AllOpen() {
  static OpenFiles& open = *new OpenFiles;
  return open;
}

}  // namespace

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
    InstallMappingGuard();
    file->data_ = static_cast<const std::byte*>(data);
    file->device_ = info.st_dev;
    file->inode_ = info.st_ino;
    const std::lock_guard lock(AllOpen().mutex);
    AllOpen().files.insert(file.get());
  }
  ::close(fd);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  if (Shrunk()) ReportLostMapping(path_.c_str());
  {
    const std::lock_guard lock(AllOpen().mutex);
    AllOpen().files.erase(this);
  }
  ::munmap(const_cast<std::byte*>(data_), size_);
}

// Zeros stand behind the end of a file on its last page, where no access fails.
bool MappedFile::Shrunk() const {
  struct stat info {};
  return ::stat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_ &&
         static_cast<uint64_t>(info.st_size) < size_;
}

void MappedFile::CheckAll() {
  {
    const std::lock_guard lock(AllOpen().mutex);
    for (const MappedFile* const file : AllOpen().files) {
      if (file->Shrunk()) ReportLostMapping(file->path_.c_str());
    }
  }
  CheckMappings();
}

}  // namespace hif8
