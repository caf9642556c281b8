#include "apps/common/program.h"

#include <fcntl.h>

#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "apps/common/help.h"
#include "apps/common/own_outputs.h"
#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/core/mapped_file.h"

namespace hif8::cli {
namespace {

// Before the command line is understood: what it says about messages anyway.
ParsedOptions MessageOptions(int argc, const char* const* argv) {
  ParsedOptions options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) options.Add("json", {"true", "--json", false});
  }
  return options;
}

bool Answer(const Program& program, const ParsedOptions& options, Console& console) {
  const ProgramSpec& spec = program.spec;
  if (options.Flag("help")) {
    console.Print(FullHelp(spec));
  } else if (options.Flag("short-help")) {
    console.Print(ShortHelp(spec));
  } else if (options.Flag("version")) {
    console.Print(spec.name + " " HIF8_VERSION "\n");
  } else if (options.Has("generate")) {
    const std::string kind = options.Text("generate");
    const std::string text = Generate(spec, kind, HIF8_VERSION);
    console.Print(text.empty() && program.generate ? program.generate(kind) : text);
  } else {
    return program.answer && program.answer(options, console);
  }
  return true;
}

void Run(const Program& program, const ParsedOptions& options, Console& console) {
  if (Answer(program, options, console)) return;
  RequirePositionals(program.spec, options);
  program.run(options, console);
}

// Runs `body`; what it throws becomes an Error.
template <typename F>
std::unique_ptr<Error> Catch(F body) {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return std::make_unique<Error>(error);
  } catch (const std::bad_alloc&) {
    return std::make_unique<Error>(ErrorCode::kEnvironment, "out of memory",
                                   "use fewer samples, a smaller batch or a larger machine");
  } catch (const std::filesystem::filesystem_error& error) {
    // A path that cannot even be looked at: no permission on a folder above, a loop of links, too
    // long a name.
    return std::make_unique<Error>(ErrorCode::kEnvironment,
                                   "cannot access the path: " + error.code().message(),
                                   "check the path and its permissions", error.path1().string());
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      return std::make_unique<Error>(BugError(error.what()));
    }
    return std::make_unique<Error>(ErrorCode::kEnvironment, "the system gives no more threads",
                                   "give a smaller --threads, or raise the limit (ulimit -u)");
  } catch (const std::exception& error) {
    return std::make_unique<Error>(BugError(error.what()));
  }
}

// A standard stream that is closed would be given to the next file that is opened, and messages
// written into it. Read-only, so that a result written to a closed stdout is still an error.
void OpenStandardStreams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int same = ::open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int RunProgram(const Program& program, int argc, const char* const* argv) {
  OpenStandardStreams();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is seen where the result is written
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a limit on the size of files
  InstallInterruptHandler();
  auto console = std::make_unique<Console>(MessageOptions(argc, argv));
  std::unique_ptr<Error> error = Catch([&] {
    const ParsedOptions options = ParseCommandLine(program.spec, argc, argv);
    RequireOwnOutputs(program.spec, options);  // before the log file is opened
    console = std::make_unique<Console>(options);
    Run(program, options, *console);
  });
  // What a file says that got shorter meanwhile is no reason of its own.
  if (auto lost = Catch(MappedFile::CheckAll)) error = std::move(lost);
  if (!error) return 0;
  // Writing the error may fail as well; the exit code stays.
  Catch([&] { console->PrintError(*error, program.spec.name); });
  return static_cast<int>(error->code());
}

}  // namespace hif8::cli
