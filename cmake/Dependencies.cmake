# Finds every third-party library but ONNX Runtime. All come from the system's packages, and a missing
# one is named by its Debian package. cmake/setup.sh installs them all.
function(hif8_missing what package)
  message(FATAL_ERROR
    "${what} was not found. Install the Debian package ${package} "
    "(apt-get install ${package}), or all that the build needs with cmake/setup.sh.")
endfunction()

macro(hif8_find_package name package)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    hif8_missing(${name} ${package})
  endif()
endmacro()

# A library without a usable CMake configuration: hif8::NAME from a header and library names.
function(hif8_find_library name package)
  cmake_parse_arguments(ARG "" "HEADER" "LIBRARIES;DEFINITIONS;SUFFIXES" ${ARGN})
  find_path(HIF8_${name}_INCLUDE ${ARG_HEADER} PATH_SUFFIXES ${ARG_SUFFIXES})
  if(NOT HIF8_${name}_INCLUDE)
    hif8_missing("${ARG_HEADER} (${name})" ${package})
  endif()
  add_library(hif8::${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(hif8::${name} SYSTEM INTERFACE ${HIF8_${name}_INCLUDE})
  target_compile_definitions(hif8::${name} INTERFACE ${ARG_DEFINITIONS})
  foreach(library IN LISTS ARG_LIBRARIES)
    find_library(HIF8_${name}_${library} ${library})
    if(NOT HIF8_${name}_${library})
      hif8_missing("lib${library}" ${package})
    endif()
    target_link_libraries(hif8::${name} INTERFACE ${HIF8_${name}_${library}})
  endforeach()
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
hif8_find_package(fmt libfmt-dev)
hif8_find_package(spdlog libspdlog-dev)
hif8_find_package(Eigen3 libeigen3-dev)
hif8_find_package(TBB libtbb-dev)
hif8_find_package(yaml-cpp libyaml-cpp-dev)
hif8_find_package(nlohmann_json nlohmann-json3-dev)
hif8_find_package(CLI11 libcli11-dev)
hif8_find_package(Protobuf libprotobuf-dev)
hif8_find_library(hwy libhwy-dev HEADER hwy/highway.h LIBRARIES hwy)
hif8_find_library(libzip libzip-dev HEADER zip.h LIBRARIES zip)
hif8_find_library(turbojpeg libturbojpeg0-dev HEADER turbojpeg.h LIBRARIES turbojpeg)
hif8_find_library(spng libspng-dev HEADER spng.h LIBRARIES spng)
hif8_find_library(zlib zlib1g-dev HEADER zlib.h LIBRARIES z)
hif8_find_library(zstd libzstd-dev HEADER zstd.h LIBRARIES zstd)
hif8_find_library(xxhash libxxhash-dev HEADER xxhash.h LIBRARIES xxhash)
hif8_find_library(pcre2 libpcre2-dev
  HEADER pcre2.h LIBRARIES pcre2-8 DEFINITIONS PCRE2_CODE_UNIT_WIDTH=8)
hif8_find_library(icu libicu-dev HEADER unicode/normalizer2.h LIBRARIES icuuc icudata)
hif8_find_library(sentencepiece libsentencepiece-dev
  HEADER sentencepiece_processor.h LIBRARIES sentencepiece)
# Only declarations: the one translation unit that wants the implementation says so (STB_IMAGE_IMPLEMENTATION).
hif8_find_library(stb libstb-dev HEADER stb_image.h SUFFIXES stb)
hif8_find_library(onnx libonnx-dev
  HEADER onnx/onnx_pb.h LIBRARIES onnx onnx_proto DEFINITIONS ONNX_NAMESPACE=onnx ONNX_ML=1)
target_link_libraries(hif8::onnx INTERFACE protobuf::libprotobuf)
