#include "lib/core/interrupt.h"

#include <csignal>

#include "lib/core/error.h"
#include "lib/core/mapping_guard.h"

namespace hif8 {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void OnSignal(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void InstallInterruptHandler() {
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  // nohup has it ignored: then it stays so.
  if (std::signal(SIGHUP, OnSignal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool Interrupted() { return interrupted != 0; }

void CheckInterrupt() {
  if (Interrupted())
    throw Error(ErrorCode::kInterrupted, "interrupted before the output was complete",
                "run the command again");
  CheckMappings();
}

}  // namespace hif8
