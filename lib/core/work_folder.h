// The folder beside an output in which it is made.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hif8 {

// An open file descriptor that is closed in the end; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Reset(int fd);

 private:
  int fd_;
};

// The folder `.NAME.unfinished` beside an output NAME: made by this program, locked while a run has
// it, readable by its owner alone. A marker file tells it from a folder of somebody else, which is
// neither used nor emptied. Whatever is in it belongs to the program.
class WorkFolder {
 public:
  // Takes the folder, made anew or left by an interrupted run (with what is in it). `target` is
  // absolute and its parent exists. Throws kUsage when a link, a file or a folder of somebody else
  // has the name; kEnvironment when another run has it or it cannot be made.
  explicit WorkFolder(const std::filesystem::path& target);
  // Returns where the folder of `target` is, whether it is there or not.
  static std::filesystem::path PathFor(const std::filesystem::path& target);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // True when something, also a link, has this name in the folder.
  bool Has(const char* name) const;
  // Makes an empty sub-folder with the permissions of a new folder.
  void MakeFolder(const char* name) const;
  // Removes a file or a sub-folder, and no link's target. Returns 0 or an errno value.
  int Discard(const char* name) const;
  // Moves `name` to where the output stands, which is replaced where the system can do it in one
  // step (a file, an empty folder). Returns 0 or an errno value.
  int MoveOut(const char* name) const;
  // Exchanges `name` and the output in one step. Returns 0 or an errno value: EINVAL, ENOSYS or
  // EOPNOTSUPP where the file system cannot do that.
  int Exchange(const char* name) const;
  // Moves the output into the folder. Returns 0 or an errno value.
  int MoveIn(const char* name) const;
  // Syncs the folder that holds the output. Returns 0 or an errno value.
  int SyncParent() const;
  // Removes the folder and all that is in it. What cannot be removed is left to the next run.
  void Remove();

 private:
  bool Open();
  void Mark() const;
  void MakeMarker() const;

  std::string target_;  // names in the parent
  std::filesystem::path path_;
  std::string name_;
  Descriptor parent_;
  Descriptor folder_;
  bool made_ = false;
  bool removed_ = false;
};

}  // namespace hif8
