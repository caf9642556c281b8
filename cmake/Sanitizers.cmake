# HIF8_SANITIZE applies to everything that the project compiles; libraries of the system stay as they
# are. The sanitizers' own options are in the test presets.
if(HIF8_SANITIZE)
  add_compile_options(-fsanitize=${HIF8_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HIF8_SANITIZE})
  if(HIF8_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
