# hif8::onnxruntime: the system's package where there is one, otherwise the Linux library and the headers
# that an npm package carries, pinned in npm-packages.txt. The latter is installed beside the binaries.
find_path(HIF8_ORT_INCLUDE onnxruntime_cxx_api.h
  PATH_SUFFIXES onnxruntime onnxruntime/core/session)
find_library(HIF8_ORT_LIBRARY onnxruntime)
set(HIF8_ORT_BUNDLED OFF)

if(NOT HIF8_ORT_INCLUDE OR NOT HIF8_ORT_LIBRARY)
  set(HIF8_ORT_BUNDLED ON)
  message(STATUS "No ONNX Runtime package on this system: taking the pinned one from npm")
  execute_process(
    COMMAND ${CMAKE_SOURCE_DIR}/cmake/fetch-npm.sh com.github.asus4.onnxruntime "" Plugins/Linux
      Plugins/iOS~/onnxruntime.xcframework/ios-arm64/onnxruntime.framework/Headers
      LICENSE ThirdPartyNotices.txt
    OUTPUT_VARIABLE ort_package OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "ONNX Runtime could not be fetched (see above). Install the package "
      "libonnxruntime-dev where the system has one, or give HIF8_ORT_INCLUDE and HIF8_ORT_LIBRARY.")
  endif()
  set(ort_library ${CMAKE_BINARY_DIR}/lib/libonnxruntime.so.1)  # its SONAME
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  file(COPY_FILE ${ort_package}/Plugins/Linux/x64/libonnxruntime.so ${ort_library} ONLY_IF_DIFFERENT)
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
