// Mapped files that get shorter while they are read.
#pragma once

#include <cstddef>

namespace hif8 {

// From now on a page of a file, mapped by whatever library, that cannot be read any more (somebody
// made the file shorter, the disk failed) does not end the process with SIGBUS: the rest of the
// mapping reads as zeros, and CheckMappings() tells. Other faults go where they went before. May be
// called again and from any thread.
void InstallMappingGuard();

// Throws kEnvironment naming the file when a mapping was lost so. Costs an atomic load: whoever
// turns mapped bytes into a result calls it after the last of them was read, and before the result
// is seen by anybody.
void CheckMappings();

// Makes CheckMappings() throw for that file, unless it does already.
void ReportLostMapping(const char* path);

// Reads a byte of every page of [data, data + size): makes a loss visible that the kernel met
// itself, as write(2) does.
void TouchPages(const void* data, size_t size);

}  // namespace hif8
