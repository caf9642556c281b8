// The files of a directory, whatever links there are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hif8 {

// Returns the blobs of a hub's cache where `dir` is one of its snapshots (CACHE/blobs for
// CACHE/snapshots/REVISION), else an empty path. Links from the one into the other are how such a
// cache is made.
std::filesystem::path BlobStoreOf(const std::filesystem::path& dir);

// True where `path` is `dir` or lies in it. Both are compared as they are written.
bool IsInside(const std::filesystem::path& path, const std::filesystem::path& dir);

struct FileList {
  std::vector<std::string> files;    // names relative to the directory, '/' between parts, sorted
  std::vector<std::string> notices;  // what is to be said about links, one sentence each
};

// Lists every regular file in `dir` and below. A name is made of the names on the way to the file,
// never of where a link among them points. Links to files and directories are followed, with a
// notice where they leave `dir` and its blob store; links to nothing, in circles or to a directory
// around `dir` are left out, with a notice. Throws kModel when a directory cannot be listed.
FileList ListFiles(const std::filesystem::path& dir);

}  // namespace hif8
