// Cooperative interruption: a signal handler sets a flag, long loops look at it between units of
// work.
#pragma once

namespace hif8 {

// Makes SIGINT, SIGTERM and SIGHUP (unless it is ignored) set the flag instead of ending the
// process; a second signal ends it at once.
void InstallInterruptHandler();

bool Interrupted();

// Throws Error{kInterrupted} when the flag is set, and what CheckMappings() throws: work on lost
// data ends where work that is interrupted does.
void CheckInterrupt();

}  // namespace hif8
