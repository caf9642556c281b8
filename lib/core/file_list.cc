#include "lib/core/file_list.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace fs = std::filesystem;
namespace {

// Links to directories can multiply what is found without end.
constexpr size_t kMaxFiles = 1'000'000;

class Lister {
 public:
  explicit Lister(const fs::path& dir)
      : dir_(dir), real_(fs::canonical(dir)), blobs_(BlobStoreOf(real_)) {}

  FileList List() {
    Visit(dir_, "", {real_});
    std::sort(list_.files.begin(), list_.files.end());
    std::sort(list_.notices.begin(), list_.notices.end());
    return std::move(list_);
  }

 private:
  // `chain`: the real directories on the way here.
  void Visit(const fs::path& dir, const std::string& prefix, std::vector<fs::path> chain) {
    std::error_code error;
    for (auto it = fs::directory_iterator(dir, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      const std::string name = prefix + it->path().filename().string();
      std::error_code ignored;
      fs::path real = chain.back() / it->path().filename();
      if (it->is_symlink(ignored) && !Follow(it->path(), name, chain, &real)) continue;
      if (it->is_directory(ignored)) {
        chain.push_back(real);
        Visit(it->path(), name + "/", chain);
        chain.pop_back();
      } else if (it->is_regular_file(ignored)) {
        list_.files.push_back(name);
      }
      if (list_.files.size() > kMaxFiles) {
        throw ModelError("more than " + std::to_string(kMaxFiles) + " files in the directory",
                         "give the directory of one checkpoint", dir_.string());
      }
    }
    if (error) {
      throw ModelError("cannot list the directory: " + error.message(),
                       "check the path and its permissions", dir.string());
    }
  }

  // False for a link that is left out; `real` becomes what it points to.
  bool Follow(const fs::path& link, const std::string& name, const std::vector<fs::path>& chain,
              fs::path* real) {
    std::error_code error;
    *real = fs::canonical(link, error);
    if (error) {
      list_.notices.push_back("'" + name + "' is a link to nothing: left out");
      return false;
    }
    const auto holds = [&](const fs::path& dir) { return IsInside(dir, *real); };
    if (fs::is_directory(*real, error) && std::any_of(chain.begin(), chain.end(), holds)) {
      list_.notices.push_back("'" + name + "' is a link to a directory around it: left out");
      return false;
    }
    if (!IsInside(*real, real_) && (blobs_.empty() || !IsInside(*real, blobs_))) {
      list_.notices.push_back("'" + name + "' is a link out of the directory, to " +
                              real->string() + ": followed");
    }
    return true;
  }

  fs::path dir_, real_, blobs_;
  FileList list_;
};

}  // namespace

fs::path BlobStoreOf(const fs::path& dir) {
  const fs::path snapshots = dir.parent_path();
  return snapshots.filename() == "snapshots" ? snapshots.parent_path() / "blobs" : fs::path();
}

bool IsInside(const fs::path& path, const fs::path& dir) {
  const fs::path relative = path.lexically_relative(dir);
  return !relative.empty() && *relative.begin() != "..";
}

FileList ListFiles(const fs::path& dir) { return Lister(dir).List(); }

}  // namespace hif8
