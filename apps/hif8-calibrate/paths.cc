#include "apps/hif8-calibrate/paths.h"

namespace hif8 {
namespace fs = std::filesystem;

bool IsWithin(const fs::path& path, const fs::path& folder) {
  const fs::path inner = fs::weakly_canonical(path);
  const fs::path outer = fs::weakly_canonical(folder);
  for (fs::path at = inner;; at = at.parent_path()) {
    if (at == outer) return true;
    if (at == at.root_path() || at.empty()) return false;
  }
}

}  // namespace hif8
