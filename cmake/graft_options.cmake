# Options, warnings and sanitizers: one INTERFACE target, graft_flags, that every target of the project links.

option(GRAFT_BUILD_GENERATOR "Build formats, diffusion and the graft program (needs libpng, jansson, pcre2, utf8proc)" ON)
# Tests look inside the library, of which a shared one shows its interface only.
set(graft_tests_default ${PROJECT_IS_TOP_LEVEL})
if(BUILD_SHARED_LIBS)
  set(graft_tests_default OFF)
endif()
option(GRAFT_BUILD_TESTS "Build the tests (needs cmocka and a static graft)" ${graft_tests_default})
if(GRAFT_BUILD_TESTS AND BUILD_SHARED_LIBS)
  message(FATAL_ERROR "The tests need a static graft: leave out BUILD_SHARED_LIBS, or set -DGRAFT_BUILD_TESTS=OFF")
endif()
option(GRAFT_WERROR "Treat warnings as errors (the presets for developers do)" OFF)
option(GRAFT_VERIFY "Check the planner's work after every pass, as builds without NDEBUG do" OFF)
set(GRAFT_SANITIZE "" CACHE STRING "Sanitizers to build with, for example address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_package(Threads REQUIRED)

add_library(graft_flags INTERFACE)
target_include_directories(graft_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(graft_flags INTERFACE _GNU_SOURCE GRAFT_BUILDING)
target_compile_options(graft_flags INTERFACE
  -Wall -Wextra -Wshadow -Wundef -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual -Wpointer-arith
  -Wwrite-strings -Wformat=2 -Wdouble-promotion
  # Products and sums are fused only where a kernel says so, never by the compiler's mood: results must not depend on it.
  -ffp-contract=off)
# Places in error records are given from the project's root.
target_compile_options(graft_flags INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(GRAFT_VERIFY)
  target_compile_definitions(graft_flags INTERFACE GRAFT_VERIFY)
endif()
if(GRAFT_WERROR)
  target_compile_options(graft_flags INTERFACE -Werror)
endif()
if(GRAFT_SANITIZE)
  target_compile_options(graft_flags INTERFACE -fsanitize=${GRAFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(graft_flags INTERFACE -fsanitize=${GRAFT_SANITIZE})
endif()
target_link_libraries(graft_flags INTERFACE Threads::Threads m)
