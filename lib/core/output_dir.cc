#include "lib/core/output_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/output_file.h"
#include "lib/core/resume_list.h"

namespace hif8 {
namespace fs = std::filesystem;
namespace {

std::string Reason(int error) { return std::strerror(error); }

void SyncPath(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw WriteError(path, errno);
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (result != 0) throw WriteError(path, error);
}

fs::path Sibling(const fs::path& target, const char* suffix) {
  return target.parent_path() /
         ("." + target.filename().string() + suffix + std::to_string(::getpid()));
}

// As a volume of a container is.
bool IsMountPoint(const fs::path& path) {
#ifdef STATX_ATTR_MOUNT_ROOT
  struct statx status = {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#else
  return false;  // the final rename says so
#endif
}

// "out/" and "out" are one folder, and a relative path must have a parent to put the sibling in.
fs::path Normal(const fs::path& path) {
  fs::path normal = fs::absolute(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  std::error_code error;
  const bool linked = fs::is_symlink(normal, error) && fs::is_directory(normal, error);
  return linked ? fs::canonical(normal) : normal;
}

}  // namespace

Error WriteError(const fs::path& path, int error) {
  return EnvironmentError("cannot write: " + Reason(error),
                          error == ENOSPC ? "free some space or choose another disk with -o"
                                          : "check that the folder exists and can be written",
                          path.string());
}

OutputDir::OutputDir(const fs::path& target, bool force, Unfinished unfinished)
    : target_(Normal(target)), unfinished_(unfinished), force_(force) {
  if (IsMountPoint(target_)) {
    throw EnvironmentError("the output folder is a mount point, which no other folder can replace",
                           "give a folder inside of it: -o " + (target_ / "result").string(),
                           target_.string());
  }
  RequireReplaceable();
  std::error_code error;
  fs::create_directories(target_.parent_path(), error);
  if (error) throw WriteError(target_.parent_path(), error.value());
  if (unfinished_ == Unfinished::kKeep) {
    temporary_ = target_.parent_path() / ("." + target_.filename().string() + ".unfinished");
    fs::create_directory(temporary_, error);
    if (error) throw WriteError(temporary_, error.value());
    lock_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      if (lock_ >= 0) ::close(lock_);
      if (reason != EWOULDBLOCK) throw WriteError(temporary_, reason);
      throw EnvironmentError("another run is writing this output",
                             "wait for it, or choose another -o", target_.string());
    }
    return;
  }
  temporary_ = Sibling(target_, ".tmp-");
  fs::remove_all(temporary_, error);
  if (!fs::create_directory(temporary_, error)) throw WriteError(temporary_, error.value());
}

OutputDir::~OutputDir() {
  std::error_code ignored;
  if (!committed_ && !KeepsFinished()) fs::remove_all(temporary_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

bool OutputDir::KeepsFinished() const {
  std::error_code ignored;
  return unfinished_ == Unfinished::kKeep &&
         fs::exists(temporary_ / ResumeList::kFileName, ignored);
}

void OutputDir::RequireReplaceable() const {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(target_, error))) return;
  if (!fs::is_directory(target_, error)) {
    throw UsageError("the output exists and is no folder", "choose another -o", target_.string());
  }
  if (fs::is_empty(target_, error)) return;
  if (!force_) {
    throw UsageError("the output already exists", "give --force to replace it, or another -o",
                     target_.string());
  }
  // All else that lies there would be lost.
  for (const char* const file : {kRecipe, kCalibration}) {
    if (fs::exists(target_ / file, error)) continue;
    throw UsageError("the output folder holds other things than an earlier result (it has no " +
                         std::string(file) + "), and --force would delete them",
                     "choose another -o, or empty the folder first", target_.string());
  }
}

void OutputDir::Fill(LogSink& log, const std::function<void()>& write) const {
  try {
    write();
  } catch (const Error&) {
    if (KeepsFinished()) {
      log.Info("finished files stay in " + temporary_.string() +
               ": the same command goes on with them");
    }
    throw;
  }
}

void OutputDir::Commit() {
  RequireReplaceable();
  std::error_code ignored;
  fs::remove(temporary_ / ResumeList::kFileName, ignored);
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) SyncPath(entry.path());
  SyncPath(temporary_);
  std::error_code error;
  const fs::path old = Sibling(target_, ".old-");
  const bool replaces = fs::exists(target_, error);
  if (replaces) {
    fs::rename(target_, old, error);
    if (error) throw WriteError(target_, error.value());
  }
  fs::rename(temporary_, target_, error);
  if (error) {
    const int reason = error.value();
    if (replaces) fs::rename(old, target_, error);
    throw WriteError(target_, reason);
  }
  committed_ = true;
  SyncPath(target_.parent_path());
  if (replaces) fs::remove_all(old, error);
}

void WriteFileAtomically(const fs::path& path, std::string_view text) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    // A device, a pipe or a folder cannot be replaced.
    std::ofstream out(path, std::ios::binary);
    if (out) out << text << std::flush;
    if (!out) throw WriteError(path, errno);
    return;
  }
  // A symbolic link stays one: what it points to is replaced.
  const fs::path target = fs::weakly_canonical(fs::absolute(path), ignored);
  const fs::path temporary = Sibling(target, ".tmp-");
  try {
    OutputFile file(temporary);
    file.Write(text);
    file.Close();
  } catch (const Error& error) {
    ::unlink(temporary.c_str());
    throw Error(error.code(), error.message(), error.hint(), path.string());
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw WriteError(path, error);
  }
}

}  // namespace hif8
