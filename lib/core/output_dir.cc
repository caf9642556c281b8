#include "lib/core/output_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/core/output_file.h"
#include "lib/core/resume_list.h"

namespace hif8 {
namespace fs = std::filesystem;
namespace {

void SyncPath(const fs::path& path) {
  const Descriptor file(Retried([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (file.get() < 0) throw WriteError(path, errno);
  if (Retried([&] { return ::fsync(file.get()); }) != 0) throw WriteError(path, errno);
}

// Names in the work folder.
constexpr const char* kNew = "new";
constexpr const char* kOld = "old";

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

std::vector<std::string> FilesBelow(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    names.push_back(entry.path().lexically_relative(folder).generic_string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> StrangersIn(const fs::path& folder) {
  std::set<std::string> known;
  std::error_code error;
  if (fs::is_regular_file(folder / kFileList, error)) {
    known.insert(kFileList);
    std::istringstream lines(ReadFile(folder / kFileList));
    for (std::string line; std::getline(lines, line);) known.insert(line);
  }
  std::vector<std::string> strangers = FilesBelow(folder);
  std::erase_if(strangers, [&](const std::string& name) { return known.contains(name); });
  return strangers;
}

void RemoveLeftover(const fs::path& output) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(fs::absolute(output), error);
  if (!fs::exists(fs::symlink_status(WorkFolder::PathFor(target), error))) return;
  try {
    WorkFolder left(target);
    if (!fs::exists(left.path() / kNew / ResumeList::kFileName, error)) left.Remove();
  } catch (const Error&) {  // not ours, or in use
  }
}

OutputDir::OutputDir(const fs::path& target, bool force, Unfinished unfinished)
    : target_(Normal(target)), unfinished_(unfinished), force_(force) {
  if (IsMountPoint(target_)) {
    throw EnvironmentError("the output folder is a mount point, which no other folder can replace",
                           "give a folder inside of it: -o " + (target_ / "result").string(),
                           target_.string());
  }
  try {
    RequireReplaceable();
  } catch (const Error&) {
    RemoveLeftover(target_);
    throw;
  }
  std::error_code error;
  fs::create_directories(target_.parent_path(), error);
  if (error) throw WriteError(target_.parent_path(), error.value());
  work_.emplace(target_);
  path_ = work_->path() / kNew;
  try {
    Claim();
  } catch (const Error&) {
    if (!KeepsFinished() && !HoldsOldAlone()) work_->Remove();
    throw;
  }
}

OutputDir::~OutputDir() {
  if (!KeepsFinished() && !HoldsOldAlone()) work_->Remove();
}

void OutputDir::Claim() {
  Restore();
  RequireReplaceable();
  if (!KeepsFinished()) {
    if (const int error = work_->Discard(kNew); error != 0) throw WriteError(path_, error);
  }
  if (!work_->Has(kNew)) work_->MakeFolder(kNew);
}

// A run that was killed while it replaced a result, where the system cannot do it in one step.
void OutputDir::Restore() {
  if (HoldsOldAlone()) {
    if (const int error = work_->MoveOut(kOld); error != 0) throw WriteError(target_, error);
  }
  if (const int error = work_->Discard(kOld); error != 0) {
    throw WriteError(work_->path() / kOld, error);
  }
}

bool OutputDir::HoldsOldAlone() const {
  std::error_code error;
  return work_->Has(kOld) && !fs::exists(fs::symlink_status(target_, error));
}

bool OutputDir::KeepsFinished() const {
  std::error_code ignored;
  return unfinished_ == Unfinished::kKeep && fs::exists(path_ / ResumeList::kFileName, ignored);
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
  for (const char* const file : {kRecipe, kCalibration, kFileList}) {
    if (fs::exists(target_ / file, error)) continue;
    throw UsageError("the output folder holds other things than an earlier result (it has no " +
                         std::string(file) + "), and --force would delete them",
                     "choose another -o, or empty the folder first", target_.string());
  }
  const std::vector<std::string> strangers = StrangersIn(target_);
  if (strangers.empty()) return;
  constexpr size_t kShown = 3;
  std::string names;
  for (size_t i = 0; i < std::min(kShown, strangers.size()); ++i) {
    names += (i == 0 ? "'" : ", '") + strangers[i] + "'";
  }
  if (strangers.size() > kShown) {
    names += " and " + std::to_string(strangers.size() - kShown) + " more";
  }
  throw UsageError(
      "the output folder holds files beside the earlier result, which --force would "
      "delete: " +
          names,
      "move them elsewhere, or choose another -o", target_.string());
}

void OutputDir::Fill(LogSink& log, const std::function<void()>& write) const {
  try {
    write();
  } catch (const Error& error) {
    if (KeepsFinished()) {
      log.Info("finished files stay in " + work_->path().string() +
               ": the same command goes on with them");
    }
    // What this run wrote itself is no model of the user's.
    if (error.code() == ErrorCode::kModel && error.where().starts_with(path_.string())) {
      throw EnvironmentError("the file was changed after it was written: " + error.message(),
                             "let nobody else write into that folder, and start the run again",
                             error.where());
    }
    throw;
  }
}

void OutputDir::Commit() {
  RequireReplaceable();
  std::error_code error;
  fs::remove(path_ / ResumeList::kFileName, error);
  if (error) throw WriteError(path_ / ResumeList::kFileName, error.value());
  std::string list;
  for (const std::string& name : FilesBelow(path_)) {
    if (name != kFileList) list += name + "\n";
  }
  WriteFile(path_ / kFileList, list);
  for (const auto& entry : fs::recursive_directory_iterator(path_)) SyncPath(entry.path());
  SyncPath(path_);
  Replace();
  if (const int failed = work_->SyncParent(); failed != 0) {
    throw WriteError(target_.parent_path(), failed);
  }
  work_->Remove();
}

void OutputDir::Replace() {
  std::error_code ignored;
  int error = 0;
  if (!fs::exists(target_, ignored)) {
    error = work_->MoveOut(kNew);
  } else {
    error = work_->Exchange(kNew);
    if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP) {
      error = work_->MoveIn(kOld);
      if (error == 0) error = work_->MoveOut(kNew);
      if (error != 0 && HoldsOldAlone()) work_->MoveOut(kOld);
    }
  }
  if (error != 0) throw WriteError(target_, error);
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
  std::optional<WorkFolder> work;
  try {
    work.emplace(target);
    if (const int error = work->Discard(kNew); error != 0) throw WriteError(path, error);
    WriteFile(work->path() / kNew, text);
    if (const int error = work->MoveOut(kNew); error != 0) throw WriteError(path, error);
    work->Remove();
  } catch (const Error& error) {
    if (!work) throw;
    work->Remove();
    throw Error(error.code(), error.message(), error.hint(), path.string());
  }
}

}  // namespace hif8
