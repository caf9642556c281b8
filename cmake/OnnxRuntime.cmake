# hif8::onnxruntime: the system's package where there is one, otherwise the Linux library and the headers
# that an npm package carries, pinned in npm-packages.txt. The latter is installed beside the binaries.
find_path(HIF8_ORT_INCLUDE onnxruntime_cxx_api.h
  PATH_SUFFIXES onnxruntime onnxruntime/core/session)
find_library(HIF8_ORT_LIBRARY onnxruntime)
set(HIF8_ORT_BUNDLED OFF)

if(NOT HIF8_ORT_INCLUDE OR NOT HIF8_ORT_LIBRARY)
  set(HIF8_ORT_BUNDLED ON)
  message(STATUS "No ONNX Runtime package on this system: taking the pinned one from npm")
  function(hif8_fetch_ort result package)
    execute_process(COMMAND ${CMAKE_SOURCE_DIR}/cmake/fetch-npm.sh ${package} "" ${ARGN}
      OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "ONNX Runtime could not be fetched (see above). Install the package "
        "libonnxruntime-dev where the system has one, or give HIF8_ORT_INCLUDE and HIF8_ORT_LIBRARY.")
    endif()
    set(${result} ${folder} PARENT_SCOPE)
  endfunction()
  hif8_fetch_ort(ort_package com.github.asus4.onnxruntime Plugins/Linux
    Plugins/iOS~/onnxruntime.xcframework/ios-arm64/onnxruntime.framework/Headers
    LICENSE ThirdPartyNotices.txt)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set(ort_fetched ${ort_package}/Plugins/Linux/x64/libonnxruntime.so)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    # A newer library understands older headers.
    hif8_fetch_ort(ort_fetched onnxruntime-node)
    set(ort_fetched ${ort_fetched}/bin/napi-v6/linux/arm64/libonnxruntime.so.1)
  else()
    message(FATAL_ERROR "npm has no ONNX Runtime for ${CMAKE_SYSTEM_PROCESSOR}: x86_64 and aarch64 "
      "only. Give HIF8_ORT_INCLUDE and HIF8_ORT_LIBRARY.")
  endif()
  set(ort_library ${CMAKE_BINARY_DIR}/lib/libonnxruntime.so.1)  # its SONAME
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  file(COPY_FILE ${ort_fetched} ${ort_library} ONLY_IF_DIFFERENT)
  set(ort_include
    ${ort_package}/Plugins/iOS~/onnxruntime.xcframework/ios-arm64/onnxruntime.framework/Headers)
  install(FILES ${ort_library} DESTINATION ${CMAKE_INSTALL_LIBDIR}/hif8)
  install(FILES ${ort_package}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}
    RENAME onnxruntime-LICENSE.txt)
  install(FILES ${ort_package}/ThirdPartyNotices.txt DESTINATION ${CMAKE_INSTALL_DOCDIR}
    RENAME onnxruntime-ThirdPartyNotices.txt)
else()
  set(ort_library ${HIF8_ORT_LIBRARY})
  set(ort_include ${HIF8_ORT_INCLUDE})
endif()

add_library(hif8::onnxruntime SHARED IMPORTED GLOBAL)
set_target_properties(hif8::onnxruntime PROPERTIES IMPORTED_LOCATION ${ort_library})
target_include_directories(hif8::onnxruntime SYSTEM INTERFACE ${ort_include})
