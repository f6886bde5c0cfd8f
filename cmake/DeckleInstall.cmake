# SPDX-License-Identifier: MIT
#
# make install: libraries, headers, the command, man pages, completions, find_package(deckle) and
# pkg-config.

include(CMakePackageConfigHelpers)

install(TARGETS deckle_shared deckle_static EXPORT deckle
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
