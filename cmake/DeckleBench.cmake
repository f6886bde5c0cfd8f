# SPDX-License-Identifier: MIT
#
# bench/scale: the model of many CPUs, program deckle_scale; a small run of it is the test scale. The
# core is compiled once more, each access to shared memory reported.

if(CMAKE_CROSSCOMPILING OR CMAKE_SIZEOF_VOID_P LESS 8 OR "thread" IN_LIST DECKLE_SANITIZE)
    return()
endif()

deckle_glob(scale_sources bench/scale/*.c)
set(scale_folder ${CMAKE_CURRENT_SOURCE_DIR}/bench/scale)
add_library(deckle_scale_core OBJECT ${core_sources})
target_compile_options(deckle_scale_core PRIVATE -ffreestanding -include ${scale_folder}/point.h)
target_compile_definitions(deckle_scale_core PRIVATE DECKLE_BUILD=1)
target_include_directories(deckle_scale_core PRIVATE ${public_include} ${internal_include})

add_executable(deckle_scale ${scale_sources} $<TARGET_OBJECTS:deckle_scale_core>)
target_compile_options(deckle_scale PRIVATE ${DECKLE_WARNINGS})
target_compile_definitions(deckle_scale PRIVATE _GNU_SOURCE)
target_include_directories(deckle_scale PRIVATE ${public_include} ${internal_include})

add_test(NAME scale COMMAND deckle_scale --most 16 --effort 50 --check)
set_tests_properties(scale PROPERTIES TIMEOUT 120 LABELS scale)
