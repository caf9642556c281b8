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

void HiddenStates::ReadFile(uint64_t first, std::span<float> values) const {
  auto* bytes = reinterpret_cast<char*>(values.data());
  for (size_t done = 0; done < values.size_bytes();) {
    const ssize_t n = ::pread(fd_, bytes + done, values.size_bytes() - done,
                              static_cast<off_t>(first * sizeof(float) + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw WriteError("temporary file of hidden states", n < 0 ? errno : EIO);
    done += static_cast<size_t>(n);
  }
}

void HiddenStates::WriteFile(uint64_t first, std::span<const float> values) {
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  for (size_t done = 0; done < values.size_bytes();) {
    const ssize_t n = ::pwrite(fd_, bytes + done, values.size_bytes() - done,
                               static_cast<off_t>(first * sizeof(float) + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw WriteError("temporary file of hidden states", errno);
    done += static_cast<size_t>(n);
  }
}

std::span<const float> HiddenStates::Read(size_t sample) {
  const size_t size = begin_[sample + 1] - begin_[sample];
  if (in_memory()) return std::span(values_).subspan(begin_[sample], size);
  values_.resize(size);
  ReadFile(begin_[sample], values_);
  return values_;
}

void HiddenStates::Write(size_t sample, std::span<const float> values) {
  if (!in_memory()) return WriteFile(begin_[sample], values);
  std::copy(values.begin(), values.end(), values_.begin() + static_cast<ptrdiff_t>(begin_[sample]));
}

void HiddenStates::Add(size_t sample, size_t first, std::span<const float> values) {
  const uint64_t at = begin_[sample] + first;
  if (in_memory()) {
    for (size_t i = 0; i < values.size(); ++i) values_[at + i] += values[i];
    return;
  }
  std::vector<float> sum(values.size());
  ReadFile(at, sum);
  for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
  WriteFile(at, sum);
}

}  // namespace hif8
