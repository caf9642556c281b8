# `cpack -G DEB` in the build folder: one package for Debian, with the bundled ONNX Runtime in its private folder.
# What it depends on is asked of dpkg-shlibdeps, library by library.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hif8)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Quantize ONNX models and checkpoints to HiF8")
set(CPACK_PACKAGE_DESCRIPTION
  "hif8-calibrate chooses scales on calibration data and writes quantized models; hif8-report shows what that did to \
every layer and decides gates. Both run on a CPU.")
set(CPACK_PACKAGE_VENDOR hif8)
set(CPACK_PACKAGE_CONTACT "hif8 maintainers <maintainers@hif8.invalid>")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)  # a minute less than xz, and a few MB more
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
include(CPack)
