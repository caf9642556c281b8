#include "lib/runtime/hidden_states.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "lib/core/output_dir.h"

namespace hif8 {
namespace {

int OpenNamelessFile() {
  std::string path = (std::filesystem::temp_directory_path() / "hidden-XXXXXX").string();
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) throw WriteError(path, errno);
  ::unlink(path.c_str());
  return fd;
}

}  // namespace

HiddenStates::HiddenStates(const std::vector<size_t>& sizes, uint64_t memory_limit) {
  begin_.push_back(0);
  for (const size_t size : sizes) begin_.push_back(begin_.back() + size);
  if (begin_.back() * sizeof(float) <= memory_limit) {
    values_.resize(begin_.back());
  } else {
    fd_ = OpenNamelessFile();
  }
}

HiddenStates::~HiddenStates() {
  if (fd_ >= 0) ::close(fd_);
}

std::span<const float> HiddenStates::Read(size_t sample) {
  const size_t size = begin_[sample + 1] - begin_[sample];
  if (in_memory()) return std::span(values_).subspan(begin_[sample], size);
  values_.resize(size);
  auto* bytes = reinterpret_cast<char*>(values_.data());
  for (size_t done = 0; done < size * sizeof(float);) {
    const ssize_t n = ::pread(fd_, bytes + done, size * sizeof(float) - done,
                              static_cast<off_t>(begin_[sample] * sizeof(float) + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw WriteError("temporary file of hidden states", n < 0 ? errno : EIO);
    done += static_cast<size_t>(n);
  }
  return values_;
}

void HiddenStates::Write(size_t sample, std::span<const float> values) {
  if (in_memory()) {
    std::copy(values.begin(), values.end(),
              values_.begin() + static_cast<ptrdiff_t>(begin_[sample]));
    return;
  }
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  for (size_t done = 0; done < values.size_bytes();) {
    const ssize_t n = ::pwrite(fd_, bytes + done, values.size_bytes() - done,
                               static_cast<off_t>(begin_[sample] * sizeof(float) + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw WriteError("temporary file of hidden states", errno);
    done += static_cast<size_t>(n);
  }
}

}  // namespace hif8
