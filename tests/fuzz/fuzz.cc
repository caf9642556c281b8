#include "tests/fuzz/fuzz.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/parallel.h"

// Read by the sanitizers as they start; ASAN_OPTIONS and LSAN_OPTIONS come on top.
extern "C" const char* __asan_default_options() {
  // Freed memory kept for checks counts as used, so less of it is kept than by default.
  return "detect_stack_use_after_return=1:allocator_may_return_null=1:quarantine_size_mb=32";
}
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libonnxruntime.so\n";  // keeps some process-wide state for ever
}

// Adds the limits that every target has; what the command line says comes later and wins.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  hif8::SetThreads(1);
  static std::string limits[] = {"-rss_limit_mb=1024", "-malloc_limit_mb=512", "-timeout=20",
                                 "-max_len=16384"};
  static std::vector<char*> arguments;
  arguments.push_back((*argv)[0]);
  for (std::string& limit : limits) {
    arguments.push_back(limit.data());
  }
  arguments.insert(arguments.end(), *argv + 1, *argv + *argc);
  *argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  *argv = arguments.data();
  return 0;
}

namespace hif8 {
namespace {

[[noreturn]] void Finding(const std::string& what) {
  std::fprintf(stderr, "FINDING: %s\n", what.c_str());
  std::abort();
}

// Set in the environment: errors are printed, to see how far inputs get.
const bool kShowErrors = std::getenv("HIF8_FUZZ_SHOW") != nullptr;

void CheckError(const Error& error) {
  const std::string text =
      "'" + error.message() + "' (hint '" + error.hint() + "', at '" + error.where() + "')";
  if (kShowErrors) std::fprintf(stderr, "%s\n", text.c_str());
  if (error.message().empty()) {
    Finding("an error without a message: " + text);
  }
  if (error.hint().empty()) {
    Finding("an error that does not say what to do: " + text);
  }
  if (error.code() == ErrorCode::kBug) {
    Finding("an error that calls itself a bug: " + text);
  }
  for (const Error& other : error.others()) {
    CheckError(other);
  }
}

struct MemoryDir {
  std::filesystem::path path;
  MemoryDir() {
    const std::filesystem::path root = std::filesystem::is_directory("/dev/shm")
                                           ? "/dev/shm"
                                           : std::filesystem::temp_directory_path();
    std::string name = (root / "hif8-fuzz-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      Finding("no directory " + name + " can be made");
    }
    path = name;
  }
  ~MemoryDir() { std::filesystem::remove_all(path); }
};

}  // namespace

void RunFuzzed(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    CheckError(error);
  } catch (const std::exception& error) {
    Finding(std::string("an exception that is no hif8::Error: ") + error.what());
  }
}

void Require(bool holds, const char* what) {
  if (!holds) Finding(std::string("does not hold: ") + what);
}

const std::filesystem::path& FuzzDir() {
  static const MemoryDir dir;
  return dir.path;
}

std::filesystem::path WriteFuzzFile(const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = FuzzDir() / name;
  if (path.parent_path() != FuzzDir()) {
    std::filesystem::create_directories(path.parent_path());
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) {
    Finding("cannot write " + path.string());
  }
  return path;
}

std::filesystem::path WriteFuzzFiles(std::span<const InputFile> files) {
  const std::filesystem::path folder = FuzzDir() / "files";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::error_code ignored;
  for (const InputFile& file : files) {
    const std::filesystem::path path = folder / file.name;
    std::filesystem::create_directories(path.parent_path(), ignored);
    std::ofstream(path, std::ios::binary) << file.bytes;
  }
  return folder;
}

}  // namespace hif8
