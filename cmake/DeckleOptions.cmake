# SPDX-License-Identifier: MIT
#
# Options of the build, the compiler flags that follow from them, and deckle_glob().

option(DECKLE_TESTS "Build the tests" ON)
if(CMAKE_CROSSCOMPILING)
    option(DECKLE_COMMAND "Build the command deckle (needs liblzma, zlib and cJSON)" OFF)
else()
    option(DECKLE_COMMAND "Build the command deckle (needs liblzma, zlib and cJSON)" ON)
endif()
option(DECKLE_INSTALL "Install rules, and the tests of what is installed" ON)
option(DECKLE_WERROR "Treat warnings as errors" OFF)
set(DECKLE_SANITIZE "" CACHE STRING "Sanitizers, e.g. address;undefined or thread")
set(DECKLE_CMOCKA "auto" CACHE STRING "cmocka: auto, system or bundled (a subset for cross builds)")
set(DECKLE_TEST_EFFORT 100 CACHE STRING "Percent of the usual work that tests do; less when slow")
set(DECKLE_TEST_TIMEOUT_FACTOR 1 CACHE STRING "Time limits of the tests are multiplied by this")
set(DECKLE_CORE_OPTIONS "" CACHE STRING "Further compiler options for src/base, src/core, src/policy")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(DECKLE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes)
if(DECKLE_WERROR)
    list(APPEND DECKLE_WARNINGS -Werror)
endif()

if(DECKLE_SANITIZE)
    string(REPLACE ";" "," sanitizers "${DECKLE_SANITIZE}")
    add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${sanitizers})
    if("undefined" IN_LIST DECKLE_SANITIZE)
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
    if("thread" IN_LIST DECKLE_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        add_compile_options(-Wno-tsan) # fences: modelled by the accesses around them
    endif()
endif()

# deckle_glob(variable pattern...): sorted, relative to the top, seen again at every build.
function(deckle_glob variable)
    list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    file(GLOB found CONFIGURE_DEPENDS ${ARGN})
    list(SORT found)
    set(${variable} ${found} PARENT_SCOPE)
endfunction()
