# HIF8_SANITIZE applies to everything that the project compiles; libraries of the system stay as they are.
if(HIF8_SANITIZE)
  add_compile_options(-fsanitize=${HIF8_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HIF8_SANITIZE})
  if(HIF8_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

# Environment of the tests under a sanitizer.
set(HIF8_TEST_ENVIRONMENT "")
if(HIF8_SANITIZE MATCHES "address")
  list(APPEND HIF8_TEST_ENVIRONMENT
    "ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1"
    "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1")
elseif(HIF8_SANITIZE MATCHES "thread")
  list(APPEND HIF8_TEST_ENVIRONMENT
    "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan.supp:halt_on_error=1")
endif()
