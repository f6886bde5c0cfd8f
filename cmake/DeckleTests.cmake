# SPDX-License-Identifier: MIT
#
# deckle_add_test() and the choice of cmocka.

set(cmocka_found FALSE)
if(NOT DECKLE_CMOCKA STREQUAL "bundled" AND NOT CMAKE_CROSSCOMPILING)
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
        pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
        set(cmocka_found ${CMOCKA_FOUND})
    endif()
    if(DECKLE_CMOCKA STREQUAL "system" AND NOT cmocka_found)
        message(FATAL_ERROR "cmocka not found (pkg-config cmocka); "
                            "install it or configure with -DDECKLE_CMOCKA=bundled")
    endif()
endif()

add_library(deckle_test_environment INTERFACE)
target_include_directories(deckle_test_environment INTERFACE ${PROJECT_SOURCE_DIR}/tests/support)
if(cmocka_found)
    target_link_libraries(deckle_test_environment INTERFACE PkgConfig::CMOCKA)
else()
    target_include_directories(deckle_test_environment INTERFACE
                               ${PROJECT_SOURCE_DIR}/tests/support/cmocka)
endif()
target_link_libraries(deckle_test_environment INTERFACE Threads::Threads m)

# Tests, unlike the library, may use atomics wider than the machine word (32-bit mips).
include(CheckCSourceCompiles)
check_c_source_compiles("
    #include <stdatomic.h>
    #include <stdint.h>
    _Atomic uint64_t n;
    int main(void) { return (int)atomic_fetch_add(&n, 1); }" DECKLE_HAVE_ATOMIC64)
if(NOT DECKLE_HAVE_ATOMIC64)
    target_link_libraries(deckle_test_environment INTERFACE atomic)
endif()

set(test_environment "DECKLE_TEST_EFFORT=${DECKLE_TEST_EFFORT}")
if(CMAKE_CROSSCOMPILING_EMULATOR)
    list(APPEND test_environment DECKLE_TEST_EMULATED=1)
endif()

# deckle_test_parts(folder): the sources of a folder of tests that are no tests themselves become a
# library that its tests link; those of tests/support are linked by all. The library under test is the
# test's own choice, hence no link here.
function(deckle_test_parts folder)
    deckle_glob(parts ${folder}/*.c)
    list(FILTER parts EXCLUDE REGEX "/test_[^/]*$")
    set(uses_command FALSE)
    if(folder MATCHES "^(tools|fuzz)$")
        set(uses_command TRUE)
    endif()
    if(uses_command AND NOT TARGET deckle_command)
        return()
    endif()
    if(parts AND NOT TARGET deckle_test_${folder})
        add_library(deckle_test_${folder} STATIC ${parts})
        target_compile_options(deckle_test_${folder} PRIVATE ${DECKLE_WARNINGS})
        target_include_directories(deckle_test_${folder} PRIVATE ${public_include} ${internal_include})
        target_link_libraries(deckle_test_${folder} PRIVATE deckle_test_environment)
        if(uses_command)
            target_link_libraries(deckle_test_${folder} PRIVATE deckle_command)
        endif()
    endif()
endfunction()

# deckle_test_wishes(source group): sets timeout, labels and serial from the source's "ctest:" line.
macro(deckle_test_wishes source group)
    set(timeout 60)
    set(labels ${group})
    set(serial FALSE)
    file(STRINGS ${source} line REGEX "ctest: " LIMIT_COUNT 1)
    if(line MATCHES "timeout=([0-9]+)")
        set(timeout ${CMAKE_MATCH_1})
    endif()
    if(line MATCHES "labels=([^ ]+)")
        list(APPEND labels ${CMAKE_MATCH_1})
    endif()
    file(STRINGS ${source} line_of_thread REGEX "pthread_create|clone\\(" LIMIT_COUNT 1)
    if(line_of_thread)
        list(APPEND labels threads)
    endif()
    file(STRINGS ${source} line_of_effort REGEX "test_effort\\(" LIMIT_COUNT 1)
    if(line_of_effort OR "${group}" STREQUAL "fuzz")
        list(APPEND labels effort)
    endif()
    if(line MATCHES " serial")
        set(serial TRUE)
    endif()
    math(EXPR timeout "${timeout} * ${DECKLE_TEST_TIMEOUT_FACTOR}")
endmacro()

# deckle_add_test(group source library...): one executable, one or more ctest entries.
function(deckle_add_test group source)
    get_filename_component(stem ${source} NAME_WE)
    string(REGEX REPLACE "^test_" "" name ${stem})
    deckle_test_wishes(${source} ${group})

    set(target test_${group}_${name})
    add_executable(${target} ${source})
    target_compile_options(${target} PRIVATE ${DECKLE_WARNINGS})
    target_compile_definitions(${target} PRIVATE DECKLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    foreach(folder IN ITEMS ${group} support)
        if(TARGET deckle_test_${folder})
            target_link_libraries(${target} PRIVATE deckle_test_${folder})
        endif()
    endforeach()
    target_link_libraries(${target} PRIVATE ${ARGN} deckle_test_environment)

    set(shifts 12)
    file(STRINGS ${source} uses_shift REGEX "test_page_shift\\(" LIMIT_COUNT 1)
    if(uses_shift)
        set(shifts 12 14 16)
    endif()
    foreach(shift IN LISTS shifts)
        set(test ${group}.${name})
        if(NOT shift EQUAL 12)
            set(test ${test}.shift${shift})
        endif()
        add_test(NAME ${test} COMMAND ${target})
        set_tests_properties(${test} PROPERTIES
            TIMEOUT ${timeout} LABELS "${labels}" RUN_SERIAL ${serial} SKIP_RETURN_CODE 77
            ENVIRONMENT "DECKLE_TEST_PAGE_SHIFT=${shift};${test_environment}")
    endforeach()
endfunction()

# deckle_add_script(group source): a test in sh or Python.
function(deckle_add_script group source)
    get_filename_component(stem ${source} NAME_WE)
    string(REGEX REPLACE "^test_" "" name ${stem})
    deckle_test_wishes(${source} ${group})

    set(command ${source})
    set(environment "DECKLE_SOURCE_DIR=${PROJECT_SOURCE_DIR};${test_environment}")
    if(TARGET deckle)
        list(APPEND environment "DECKLE=$<TARGET_FILE:deckle>")
    endif()
    if(source MATCHES "\\.py$")
        find_program(DECKLE_PYTHON python3)
        if(DECKLE_PYTHON)
            set(command ${DECKLE_PYTHON} -B ${source})
        else()
            set(command sh -c "echo no python3; exit 77")
        endif()
    endif()
    add_test(NAME ${group}.${name} COMMAND ${command} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${group}.${name} PROPERTIES
        TIMEOUT ${timeout} LABELS "${labels}" RUN_SERIAL ${serial} SKIP_RETURN_CODE 77
        ENVIRONMENT "${environment}")
endfunction()

# deckle_add_example(source): compiled as a user would, with the public headers alone.
function(deckle_add_example source)
    get_filename_component(name ${source} NAME_WE)
    deckle_test_wishes(${source} example)
    add_executable(example_${name} ${source})
    target_compile_options(example_${name} PRIVATE ${DECKLE_WARNINGS})
    target_link_libraries(example_${name} PRIVATE deckle::deckle_static)
    add_test(NAME example.${name} COMMAND example_${name})
    set_tests_properties(example.${name} PROPERTIES
        TIMEOUT ${timeout} LABELS "${labels}" RUN_SERIAL ${serial} SKIP_RETURN_CODE 77)
endfunction()
