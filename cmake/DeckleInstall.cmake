# SPDX-License-Identifier: MIT
#
# make install: libraries, headers, the command, man pages, completions, find_package(deckle) and
# pkg-config. tests/consumer installs into a staging folder and uses all of it.

include(CMakePackageConfigHelpers)

install(TARGETS deckle_shared deckle_static EXPORT deckle
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/deckle)
install(EXPORT deckle NAMESPACE deckle:: FILE deckle-targets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/deckle-config.cmake.in deckle-config.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(deckle-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/deckle-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/deckle-config-version.cmake
        DESTINATION ${package_folder})

# Relative to the .pc file, so that an installed tree can be moved and a prefix given late works.
file(RELATIVE_PATH pc_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(cmake/deckle.pc.in deckle.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/deckle.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET deckle)
    install(TARGETS deckle RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    deckle_glob(command_pages docs/man/*.1)
    install(FILES ${command_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES completions/deckle.bash RENAME deckle OPTIONAL
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES completions/_deckle OPTIONAL
            DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES completions/deckle.fish OPTIONAL
            DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
foreach(section IN ITEMS 3 7)
    deckle_glob(pages docs/man/*.${section})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
install(FILES LICENSE README.md CHANGES.md OPTIONAL DESTINATION ${CMAKE_INSTALL_DOCDIR})
