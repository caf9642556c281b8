#include "lib/core/mapping_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "lib/core/error.h"
#include "lib/core/mapped_file.h"
#include "lib/core/output_file.h"

namespace hif8 {
namespace {

constexpr size_t kSize = 100'000;

class MappingGuard : public testing::Test {
 protected:
  MappingGuard() {
    std::string name = testing::TempDir() + "mappingXXXXXX";
    dir_ = ::mkdtemp(name.data());
    std::ofstream(dir_ / "source", std::ios::binary) << std::string(kSize, 'x');
  }
  ~MappingGuard() override { std::filesystem::remove_all(dir_); }

  // Ends the process (a death test's child: what is lost stays lost) as the programs do.
  template <typename Body>
  void Exit(const Body& body) {
    try {
      body();
      MappedFile::CheckAll();
      std::exit(0);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s: %s", error.where().c_str(), error.message().c_str());
      std::exit(static_cast<int>(error.code()));
    }
  }
  void Shrink(size_t size) { std::filesystem::resize_file(dir_ / "source", size); }

  std::filesystem::path dir_;
};

constexpr const char* kLost = "source: the file got shorter";

TEST_F(MappingGuard, AFileThatStaysIsNoError) {
  EXPECT_EXIT(Exit([&] {
                const auto file = MappedFile::Open(dir_ / "source");
                if (file->bytes()[kSize - 1] != std::byte{'x'}) std::exit(9);
              }),
              testing::ExitedWithCode(0), "");
}

TEST_F(MappingGuard, ReadingWhatIsGone) {
  EXPECT_EXIT(Exit([&] {
                const auto file = MappedFile::Open(dir_ / "source");
                Shrink(0);
                if (file->bytes()[50'000] != std::byte{0}) std::exit(9);
                if (file->bytes()[kSize - 1] != std::byte{0}) std::exit(9);
                CheckMappings();
                std::exit(8);
              }),
              testing::ExitedWithCode(4), kLost);
}

TEST_F(MappingGuard, WritingWhatIsGone) {
  EXPECT_EXIT(Exit([&] {
                const auto file = MappedFile::Open(dir_ / "source");
                Shrink(0);
                OutputFile(dir_ / "copy").Write(file->bytes());
                std::exit(8);
              }),
              testing::ExitedWithCode(4), kLost);
}

// Where a page is still there, no access fails: zeros are read.
TEST_F(MappingGuard, AFewBytesAreGone) {
  for (const bool closed : {false, true}) {
    EXPECT_EXIT(Exit([&] {
                  auto file = MappedFile::Open(dir_ / "source");
                  Shrink(kSize - 10);
                  if (file->bytes()[kSize - 1] != std::byte{0}) std::exit(9);
                  if (closed) file.reset();
                  MappedFile::CheckAll();
                  std::exit(8);
                }),
                testing::ExitedWithCode(4), kLost);
    Shrink(kSize);
  }
}

// As the engine maps external data by itself.
TEST_F(MappingGuard, AMappingOfAnotherLibrary) {
  EXPECT_EXIT(Exit([&] {
                InstallMappingGuard();
                const int fd = ::open((dir_ / "source").c_str(), O_RDONLY | O_CLOEXEC);
                void* const data = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, fd, 0);
                Shrink(0);
                TouchPages(data, kSize);
                CheckMappings();
                std::exit(8);
              }),
              testing::ExitedWithCode(4), kLost);
}

TEST_F(MappingGuard, OtherBusErrorsEndTheProcess) {
  EXPECT_DEATH(Exit([&] {
                 InstallMappingGuard();
                 std::raise(SIGBUS);
                 std::raise(SIGBUS);
               }),
               "");
}

}  // namespace
}  // namespace hif8
