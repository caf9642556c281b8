// An output folder that appears whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "lib/core/error.h"
#include "lib/core/log.h"

namespace hif8 {

// Files are written into a temporary sibling of the target; Commit() syncs them and renames the
// folder into place. Without Commit the destructor removes the temporary folder, so that an error,
// an interruption or a full disk leaves nothing half-written and an existing target untouched.
class OutputDir {
 public:
  enum class Unfinished {
    kRemove,  // the temporary folder disappears
    kKeep     // it stays for the next run while it holds finished files (see ResumeList)
  };

  // Every result holds these files, by which a folder is known as one.
  static constexpr const char* kRecipe = "recipe.yaml";
  static constexpr const char* kCalibration = "calibration.yaml";

  // A link to a folder stays one: the folder that it names is replaced.
  // Throws kUsage when `target` exists and `force` is false (an empty folder is no obstacle), or
  // when it is no earlier result, which `force` does not delete; kEnvironment when the parent
  // cannot be written, the target is a mount point, or another run is writing it.
  OutputDir(const std::filesystem::path& target, bool force,
            Unfinished unfinished = Unfinished::kRemove);
  ~OutputDir();
  OutputDir(const OutputDir&) = delete;
  OutputDir& operator=(const OutputDir&) = delete;

  // Where to write now; the same names stand below target() after Commit.
  const std::filesystem::path& path() const { return temporary_; }
  const std::filesystem::path& target() const { return target_; }

  // Calls `write`, which ends with Commit(). When that throws while finished files stay for the
  // next run, `log` says where they are.
  void Fill(LogSink& log, const std::function<void()>& write) const;

  // Throws kUsage when the target is there meanwhile and may not be replaced.
  void Commit();

 private:
  void RequireReplaceable() const;
  bool KeepsFinished() const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Unfinished unfinished_;
  int lock_ = -1;  // descriptor of the kept folder, locked against a second run
  bool force_;
  bool committed_ = false;
};

// The kEnvironment error of a failed write to `path`; `error` is an errno value.
Error WriteError(const std::filesystem::path& path, int error);

// Writes `text` to a file by temporary name, fsync and rename. Throws kEnvironment with the
// system's reason.
void WriteFileAtomically(const std::filesystem::path& path, std::string_view text);

}  // namespace hif8
