# One INTERFACE target carries the warnings, so that every target of the project has the same.
add_library(hif8_warnings INTERFACE)
target_compile_options(hif8_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlapping copies inside std::string at -O3 that cannot be (GCC bug 105651).
  target_compile_options(hif8_warnings INTERFACE $<$<CONFIG:Release>:-Wno-restrict>)
endif()
if(HIF8_WERROR)
  target_compile_options(hif8_warnings INTERFACE -Werror)
endif()

# Codes must not depend on whether the compiler fuses a multiply and an add.
add_compile_options(-ffp-contract=off)
