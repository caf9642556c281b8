# HIF8_SANITIZE applies to everything that the project compiles; libraries of the system stay as they
# are. The sanitizers' own options are in the test presets.
if(HIF8_SANITIZE)
  add_compile_options(-fsanitize=${HIF8_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HIF8_SANITIZE})
  if(HIF8_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

# Coverage of the libraries guides fuzz targets (tests/fuzz), which libFuzzer, a part of clang, runs.
set(fuzz OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND HIF8_SANITIZE MATCHES "address")
  set(fuzz ON)
endif()
option(HIF8_FUZZ "Build the fuzz targets: needs clang and the address sanitizer" ${fuzz})
if(HIF8_FUZZ AND NOT fuzz)
  message(FATAL_ERROR "HIF8_FUZZ needs clang and HIF8_SANITIZE=address,undefined")
endif()
