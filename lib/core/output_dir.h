// An output folder that appears whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/core/output_file.h"
#include "lib/core/work_folder.h"

namespace hif8 {

// The names of all files of a result, one a line, relative to its folder: written into it, so that
// replacing it deletes nothing else.
inline constexpr const char* kFileList = ".hif8-files";

// Returns the files of `folder` that its list does not name, in alphabetical order; all of them
// when there is no list. Links count as files.
std::vector<std::string> StrangersIn(const std::filesystem::path& folder);

// Removes what a killed run left beside `output`, for a run that is refused because the output is
// there. Finished files that a run can go on with stay, and so does what another run or somebody
// else has. Throws nothing: what cannot be removed is left to the next run.
void RemoveLeftover(const std::filesystem::path& output);

// Files are written into a folder inside of the target's WorkFolder; Commit() syncs them and puts
// the folder in place, in one step also where it replaces an earlier result. Without Commit the
// destructor removes what was written, so that an error, an interruption or a full disk leaves
// nothing half-written and an existing target untouched. What a killed run left, the next one
// removes, or goes on with.
class OutputDir {
 public:
  enum class Unfinished {
    kRemove,  // the work folder disappears
    kKeep     // it stays for the next run while it holds finished files (see ResumeList)
  };

  // Every result holds these files, by which a folder is known as one.
  static constexpr const char* kRecipe = "recipe.yaml";
  static constexpr const char* kCalibration = "calibration.yaml";

  // A link to a folder stays one: the folder that it names is replaced.
  // Throws kUsage when `target` exists and `force` is false (an empty folder is no obstacle), when
  // it is no earlier result or holds other files too, which `force` does not delete, or when the
  // name of the work folder is taken; kEnvironment when the parent cannot be written, the target is
  // a mount point, or another run is writing it.
  OutputDir(const std::filesystem::path& target, bool force,
            Unfinished unfinished = Unfinished::kRemove);
  ~OutputDir();
  OutputDir(const OutputDir&) = delete;
  OutputDir& operator=(const OutputDir&) = delete;

  // Returns where to write now; the same names stand below target() after Commit.
  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& target() const { return target_; }

  // Calls `write`, which ends with Commit(). When that throws while finished files stay for the
  // next run, `log` says where they are. A kModel error about a file below path() is made
  // kEnvironment.
  void Fill(LogSink& log, const std::function<void()>& write) const;

  // Throws kUsage when the target is there meanwhile and may not be replaced.
  void Commit();

 private:
  void Claim();
  void Restore();
  void RequireReplaceable() const;
  void Replace();
  bool KeepsFinished() const;
  bool HoldsOldAlone() const;

  std::filesystem::path target_;
  std::optional<WorkFolder> work_;
  std::filesystem::path path_;
  Unfinished unfinished_;
  bool force_;
};

// Writes `text` to a file of the user's that appears whole: made in a WorkFolder of its own, synced
// and renamed. A device or a pipe is written to. Throws kEnvironment with the system's reason.
void WriteFileAtomically(const std::filesystem::path& path, std::string_view text);

}  // namespace hif8
