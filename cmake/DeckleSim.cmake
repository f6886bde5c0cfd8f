# SPDX-License-Identifier: MIT
#
# The simulated machine: programs tests/deckle_sim and tests/deckle_sim_narrow, and their entries in
# ctest: a bounded part, and a longer one with the label long. See tests/sim/main.c.

if(CMAKE_CROSSCOMPILING OR "thread" IN_LIST DECKLE_SANITIZE)
    message(STATUS "deckle: no simulated machine in this configuration (emulated, or TSan)")
    return()
endif()

deckle_glob(sim_machine ../src/host/sim/*.c)
deckle_glob(sim_program sim/*.c)

# deckle_add_sim(suffix runs seconds definition...): runs for each case in the bounded part, seconds for
# each case in the long one.
function(deckle_add_sim suffix runs seconds)
    set(core deckle_sim_core${suffix})
    add_library(${core} OBJECT ${core_sources})
    target_compile_options(${core} PRIVATE -O2 -ffreestanding
                           -include ${PROJECT_SOURCE_DIR}/src/host/sim/hooks.h)
    target_compile_definitions(${core} PRIVATE DECKLE_BUILD=1 ${ARGN})
    target_include_directories(${core} PRIVATE ${public_include} ${internal_include})

    set(program deckle_sim${suffix})
    add_executable(${program} ${sim_machine} ${sim_program} $<TARGET_OBJECTS:${core}>)
    target_compile_options(${program} PRIVATE ${DECKLE_WARNINGS} -O2)
    target_compile_definitions(${program} PRIVATE _GNU_SOURCE DK_SIM ${ARGN})
    target_include_directories(${program} PRIVATE ${public_include} ${internal_include}
                               ${CMAKE_CURRENT_SOURCE_DIR}/support)

    string(REPLACE "_" "." name "sim${suffix}")
    math(EXPR limit "120 * ${DECKLE_TEST_TIMEOUT_FACTOR}")
    math(EXPR long_limit "600 * ${DECKLE_TEST_TIMEOUT_FACTOR}")
    add_test(NAME ${name} COMMAND ${program} --runs ${runs})
    add_test(NAME ${name}.long COMMAND ${program} --seconds ${seconds})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${limit} LABELS "sim;effort"
                         ENVIRONMENT "${test_environment}")
    set_tests_properties(${name}.long PROPERTIES TIMEOUT ${long_limit} LABELS "sim;long"
                         ENVIRONMENT "${test_environment}")
endfunction()

deckle_add_sim("" 6000 2)
deckle_add_sim(_narrow 15000 3 SIM_NARROW DK_FANOUT_SHIFT=2u)
