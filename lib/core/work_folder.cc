#include "lib/core/work_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "lib/core/error.h"
#include "lib/core/output_file.h"

namespace hif8 {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMarker = ".hif8-unfinished";
constexpr std::string_view kMarkerText =
    "An unfinished output: the next run goes on with it or removes this folder.\n";
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

std::vector<std::string> NamesIn(int folder) {
  std::vector<std::string> names;
  const int fd = ::openat(folder, ".", kFolder);
  DIR* const entries = fd < 0 ? nullptr : ::fdopendir(fd);
  if (entries == nullptr) {
    if (fd >= 0) ::close(fd);
    return names;
  }
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(entries);
  return names;
}

int RemoveTree(int folder, const char* name) {
  if (::unlinkat(folder, name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR && errno != EPERM) return errno;
  const Descriptor inner(::openat(folder, name, kFolder));
  if (inner.get() < 0) return errno;
  for (const std::string& entry : NamesIn(inner.get())) {
    if (const int error = RemoveTree(inner.get(), entry.c_str()); error != 0) return error;
  }
  return ::unlinkat(folder, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

Error Foreign(const fs::path& path, const std::string& found) {
  return UsageError("expected the program's own folder for unfinished output, found " + found,
                    "move it elsewhere, or choose another output", path.string());
}

int ErrnoOf(int result) { return result == 0 ? 0 : errno; }

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void Descriptor::Reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

fs::path WorkFolder::PathFor(const fs::path& target) {
  return target.parent_path() / ("." + target.filename().string() + ".unfinished");
}

WorkFolder::WorkFolder(const fs::path& target)
    : target_(target.filename().string()),
      path_(PathFor(target)),
      name_(path_.filename().string()),
      parent_(Retried([&] {
        return ::open(target.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      })) {
  if (parent_.get() < 0) throw WriteError(target.parent_path(), errno);
  while (!Open()) {
  }
  try {
    Mark();
  } catch (const Error&) {
    if (made_) Remove();
    throw;
  }
}

// False when the folder was removed meanwhile by the run that had it.
bool WorkFolder::Open() {
  made_ = ::mkdirat(parent_.get(), name_.c_str(), 0700) == 0;
  if (!made_ && errno != EEXIST) throw WriteError(path_, errno);
  folder_.Reset(Retried([&] { return ::openat(parent_.get(), name_.c_str(), kFolder); }));
  if (folder_.get() < 0) {
    if (errno == ENOENT) return false;
    if (errno == ELOOP || errno == ENOTDIR) throw Foreign(path_, "a link or a file");
    throw WriteError(path_, errno);
  }
  if (Retried([&] { return ::flock(folder_.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) throw WriteError(path_, errno);
    throw EnvironmentError("another run is writing this output",
                           "wait for it, or choose another output",
                           (path_.parent_path() / target_).string());
  }
  struct stat mine = {};
  struct stat named = {};
  if (::fstat(folder_.get(), &mine) != 0) throw WriteError(path_, errno);
  if (::fstatat(parent_.get(), name_.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (mine.st_dev != named.st_dev || mine.st_ino != named.st_ino) return false;
  if (!made_ && mine.st_uid != ::geteuid()) throw Foreign(path_, "a folder of another user");
  return true;
}

// A run that was killed just after making the folder leaves it empty, or with a part of the marker.
void WorkFolder::Mark() const {
  const std::vector<std::string> names = NamesIn(folder_.get());
  if (names.empty()) return MakeMarker();
  const Descriptor marker(Retried([&] {
    return ::openat(folder_.get(), kMarker, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  }));
  struct stat status = {};
  const bool ours = marker.get() >= 0 && ::fstat(marker.get(), &status) == 0 &&
                    S_ISREG(status.st_mode) && (made_ || status.st_uid == ::geteuid());
  if (!ours) throw Foreign(path_, "a folder with other files");
  char text[kMarkerText.size() + 1];
  const ssize_t size =
      Retried([&] { return static_cast<int>(::read(marker.get(), text, sizeof(text))); });
  const std::string_view found(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  if (found == kMarkerText) return;
  if (names.size() > 1 || !kMarkerText.starts_with(found)) {
    throw Foreign(path_, "a folder with other files");
  }
  MakeMarker();
}

void WorkFolder::MakeMarker() const { WriteFile(path_ / kMarker, kMarkerText); }

bool WorkFolder::Has(const char* name) const {
  struct stat status = {};
  return ::fstatat(folder_.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

void WorkFolder::MakeFolder(const char* name) const {
  if (::mkdirat(folder_.get(), name, 0777) != 0) throw WriteError(path_ / name, errno);
}

int WorkFolder::Discard(const char* name) const { return RemoveTree(folder_.get(), name); }

int WorkFolder::MoveOut(const char* name) const {
  return ErrnoOf(::renameat(folder_.get(), name, parent_.get(), target_.c_str()));
}

int WorkFolder::Exchange(const char* name) const {
  return ErrnoOf(::renameat2(folder_.get(), name, parent_.get(), target_.c_str(), RENAME_EXCHANGE));
}

int WorkFolder::MoveIn(const char* name) const {
  return ErrnoOf(::renameat(parent_.get(), target_.c_str(), folder_.get(), name));
}

int WorkFolder::SyncParent() const {
  return ErrnoOf(Retried([&] { return ::fsync(parent_.get()); }));
}

void WorkFolder::Remove() {
  if (removed_) return;
  // The marker goes last: what is left without it would not be known as ours.
  for (const std::string& name : NamesIn(folder_.get())) {
    if (name != kMarker && Discard(name.c_str()) != 0) return;
  }
  if (Discard(kMarker) != 0) return;
  removed_ = ::unlinkat(parent_.get(), name_.c_str(), AT_REMOVEDIR) == 0;
}

}  // namespace hif8
