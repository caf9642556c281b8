# hif8_module(NAME FOLDER [PUBLIC ...] [PRIVATE ...]): static library hif8_NAME over the .cc files of FOLDER
# (subfolder plugin/ aside, which is a library of its own). Includes are relative to the project's root.
function(hif8_module name folder)
  cmake_parse_arguments(ARG "" "" "PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/plugin/")
  set(target hif8_${name})
  if(NOT sources)
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${ARG_PUBLIC})
    return()
  endif()
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target}
    PUBLIC ${ARG_PUBLIC} Threads::Threads
    PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:hif8_warnings>)
  if(HIF8_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# Installed binaries find the ONNX Runtime that was installed with them.
set(HIF8_INSTALL_RPATH "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/hif8")

# hif8_app(NAME): an executable over apps/NAME/*.cc and what the applications share, apps/common/*.cc.
function(hif8_app name)
  file(GLOB sources CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/apps/${name}/*.cc ${CMAKE_SOURCE_DIR}/apps/common/*.cc)
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/apps/${name}/main.cc)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE
    hif8_all hif8_warnings CLI11::CLI11 spdlog::spdlog nlohmann_json::nlohmann_json)
  target_compile_definitions(${name} PRIVATE HIF8_VERSION="${PROJECT_VERSION}")
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "${HIF8_INSTALL_RPATH}")
  install(TARGETS ${name} DESTINATION ${CMAKE_INSTALL_BINDIR})
  hif8_generated_files(${name})
endfunction()

# Manual page and completions, which the program itself prints from its table of options.
function(hif8_generated_files name)
  set(folder ${CMAKE_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${folder})
  set(commands)
  foreach(pair "man:${name}.1" "completion-bash:${name}" "completion-zsh:_${name}"
      "completion-fish:${name}.fish")
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 kind)
    list(GET pair 1 file)
    list(APPEND commands COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0
      ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${name}> --generate ${kind} > ${folder}/${file})
  endforeach()
  add_custom_command(TARGET ${name} POST_BUILD ${commands} VERBATIM)
  install(FILES ${folder}/${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${folder}/${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${folder}/_${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${folder}/${name}.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()

# The native custom operators for a user's own ONNX Runtime session. It exports RegisterCustomOps alone and
# gets ONNX Runtime's API from whoever loads it, so it does not link to an ONNX Runtime of its own.
function(hif8_onnxruntime_plugin folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_library(hif8_onnxruntime SHARED ${sources})
  set_target_properties(hif8_onnxruntime PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON INSTALL_RPATH "")
  target_include_directories(hif8_onnxruntime PRIVATE ${CMAKE_SOURCE_DIR})
  target_include_directories(hif8_onnxruntime SYSTEM PRIVATE
    $<TARGET_PROPERTY:hif8::onnxruntime,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(hif8_onnxruntime PRIVATE
    hif8_warnings hif8_formats hif8_runtime hif8_numeric hif8_core)
  target_link_options(hif8_onnxruntime PRIVATE
    -Wl,--as-needed -Wl,--exclude-libs,ALL
    -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/plugin.map)
  set_target_properties(hif8_onnxruntime PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/plugin.map)
  install(TARGETS hif8_onnxruntime DESTINATION ${CMAKE_INSTALL_LIBDIR}/hif8)
endfunction()

# SentencePiece behind a C interface, opened at run time with a scope of its own (see its header).
function(hif8_sentencepiece_plugin folder)
  add_library(hif8_sentencepiece SHARED ${CMAKE_SOURCE_DIR}/${folder}/sentencepiece_api.cc)
  set_target_properties(hif8_sentencepiece PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON INSTALL_RPATH "")
  target_include_directories(hif8_sentencepiece PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(hif8_sentencepiece PRIVATE hif8_warnings hif8::sentencepiece)
  add_dependencies(hif8_model hif8_sentencepiece)
  install(TARGETS hif8_sentencepiece DESTINATION ${CMAKE_INSTALL_LIBDIR}/hif8)
endfunction()
