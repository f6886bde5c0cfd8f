# SPDX-License-Identifier: MIT
#
# The command deckle. Its objects without main.c are a library of their own (deckle_command), so that
# tests/tools can link them. Without its libraries the command is left out, with one line saying so.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(LZMA QUIET IMPORTED_TARGET liblzma)
    pkg_check_modules(ZLIB QUIET IMPORTED_TARGET zlib)
    pkg_check_modules(CJSON QUIET IMPORTED_TARGET libcjson)
endif()

if(LZMA_FOUND AND ZLIB_FOUND AND CJSON_FOUND)
    set(parts ${command_sources})
    list(FILTER parts EXCLUDE REGEX "/tools/deckle/main\\.c$")
    set(entry ${command_sources})
    list(FILTER entry INCLUDE REGEX "/tools/deckle/main\\.c$")

    if(parts)
        add_library(deckle_command STATIC ${parts})
        target_compile_options(deckle_command PRIVATE ${DECKLE_WARNINGS})
        target_include_directories(deckle_command PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/tools/deckle)
        target_link_libraries(deckle_command PUBLIC deckle_static
                              PkgConfig::LZMA PkgConfig::ZLIB PkgConfig::CJSON m ${CMAKE_DL_LIBS})
    endif()
    if(entry AND parts)
        add_executable(deckle ${entry})
        target_compile_options(deckle PRIVATE ${DECKLE_WARNINGS})
        target_link_libraries(deckle PRIVATE deckle_command)
    endif()

    # A peer of `deckle bench --peers`, opened when it is asked for. Its headers have warnings.
    pkg_check_modules(DPDK QUIET libdpdk)
    if(DPDK_FOUND AND NOT DECKLE_SANITIZE)
        add_library(deckle_peer_mempool MODULE bench/peers/mempool.c)
        set_target_properties(deckle_peer_mempool PROPERTIES PREFIX "" OUTPUT_NAME deckle-peer-mempool
                              C_EXTENSIONS ON C_VISIBILITY_PRESET hidden)
        target_compile_options(deckle_peer_mempool PRIVATE ${DPDK_CFLAGS} -O2 -w)
        target_link_libraries(deckle_peer_mempool PRIVATE rte_eal rte_mempool rte_ring rte_mempool_ring)
    endif()
else()
    message(STATUS "deckle: liblzma, zlib or cJSON not found; the command is left out")
endif()
