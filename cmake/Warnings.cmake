# One INTERFACE target carries the warnings, so that every target of the project has the same.
add_library(hif8_warnings INTERFACE)
target_compile_options(hif8_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi)
if(HIF8_WERROR)
  target_compile_options(hif8_warnings INTERFACE -Werror)
endif()

# Codes must not depend on whether the compiler fuses a multiply and an add.
add_compile_options(-ffp-contract=off)
