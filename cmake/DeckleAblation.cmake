# SPDX-License-Identifier: MIT
#
# Copies of the library with one thing left out each (src/core/ablation.h), for `deckle bench ablation`:
# modules deckle-ablation-NAME.so beside the command. Built by the target deckle_ablations only; `make
# bench` makes it. Of each only the files that the definition reaches are compiled again.

if(CMAKE_CROSSCOMPILING OR DECKLE_SANITIZE)
    return()
endif()
add_custom_target(deckle_ablations)

# deckle_ablation(name files definition...): files: a regular expression for the names of sources.
function(deckle_ablation name files)
    set(target deckle_ablation_${name})
    set(changed ${core_sources})
    list(FILTER changed INCLUDE REGEX "/(${files})\\.c$")
    add_library(${target} MODULE EXCLUDE_FROM_ALL ${changed}
        "$<FILTER:$<TARGET_OBJECTS:deckle_core>,EXCLUDE,/(${files})[.]c[.]o$>" $<TARGET_OBJECTS:deckle_host>)
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME deckle-ablation-${name}
        C_VISIBILITY_PRESET hidden LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/libdeckle.map)
    target_compile_definitions(${target} PRIVATE DECKLE_BUILD=1 ${ARGN})
    target_include_directories(${target} PRIVATE ${public_include} ${internal_include})
    target_compile_options(${target} PRIVATE -ffreestanding ${DECKLE_CORE_OPTIONS})
    target_link_options(${target} PRIVATE -Wl,-Bsymbolic
        -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/src/libdeckle.map)
    target_link_libraries(${target} PRIVATE Threads::Threads)
    add_dependencies(deckle_ablations ${target})
endfunction()

set(everything "[a-z_0-9]+")
deckle_ablation(none alloc)
deckle_ablation(walk ${everything} DK_WALK_IS_INLINE=0)
deckle_ablation(mark alloc DK_MARK_SHORTCUT=0)
deckle_ablation(words block DK_CLAIMS_WORDS=0)
deckle_ablation(groups zone DK_DRAINS_GROUPS=0)
deckle_ablation(unchecked "alloc|free|prepare|pcp" DK_CHECKS=DK_CHECKS_NEVER)
deckle_ablation(deferred "alloc|free|prepare|pcp" DK_CHECKS=DK_CHECKS_DEFERRED)
deckle_ablation(order0 ${everything} DK_PCP_MAX_ORDER=0u)
deckle_ablation(order3 ${everything} DK_PCP_MAX_ORDER=3u)
deckle_ablation(counters ${everything} DK_COUNTERS=0)
