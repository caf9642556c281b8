# Cross-compilation for Linux on aarch64 with Debian's g++-aarch64-linux-gnu: libraries come from HIF8_SYSROOT, where
# tests/aarch64/run.sh unpacks Debian's packages for arm64; programs run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HIF8_SYSROOT)

set(libraries ${HIF8_SYSROOT}/usr/lib/aarch64-linux-gnu:${HIF8_SYSROOT}/lib/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${HIF8_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}")
set(CMAKE_CROSSCOMPILING_EMULATOR
  qemu-aarch64 -L ${HIF8_SYSROOT}/machine -E LD_LIBRARY_PATH=${libraries})
