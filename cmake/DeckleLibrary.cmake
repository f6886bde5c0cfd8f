# SPDX-License-Identifier: MIT
#
# The three forms of the library:
#   deckle_shared    libdeckle.so.0, exports deckle_* only (src/libdeckle.map)
#   deckle_static    libdeckle.a, one object in which the internal dk_* symbols are local
#   deckle_internal  for the tests: the same objects with internal symbols visible; not installed

set(objects)
foreach(part IN LISTS library_objects)
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
endforeach()

add_library(deckle_internal STATIC ${objects})
target_include_directories(deckle_internal PUBLIC ${public_include} ${internal_include})
target_link_libraries(deckle_internal PUBLIC Threads::Threads)

# libnuma is referred to weakly (src/host/linux/topology.c): what links with it, here the shared library
# and the tests, has DECKLE_CREATE_NUMA. A weak reference alone does not count as a need for a library.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES numa)
check_c_source_compiles("#include <numa.h>\nint main(void) { return numa_available(); }" DECKLE_HAVE_NUMA)
unset(CMAKE_REQUIRED_LIBRARIES)
set(numa)
if(DECKLE_HAVE_NUMA)
    set(numa -Wl,--push-state,--no-as-needed -lnuma -Wl,--pop-state)
endif()
target_link_libraries(deckle_internal PUBLIC ${numa})

set(map ${CMAKE_CURRENT_SOURCE_DIR}/src/libdeckle.map)
add_library(deckle_shared SHARED ${objects})
set_target_properties(deckle_shared PROPERTIES
    OUTPUT_NAME deckle EXPORT_NAME deckle
    VERSION ${PROJECT_VERSION} SOVERSION 0
    LINK_DEPENDS ${map})
target_link_options(deckle_shared PRIVATE -Wl,--version-script=${map} -Wl,-z,defs)
if(DECKLE_SANITIZE)
    target_link_options(deckle_shared PRIVATE -Wl,-z,undefs) # the run time is in the executable
endif()
target_link_libraries(deckle_shared PRIVATE Threads::Threads ${numa})
target_include_directories(deckle_shared INTERFACE
    $<BUILD_INTERFACE:${public_include}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# Linking the objects into one and making hidden symbols local keeps dk_* out of a static consumer's
# name space. Sections stay apart, so --gc-sections still drops what the consumer does not use.
# Not on MIPS, where a GOT relocation means one thing for a global symbol and another for a local one:
# there dk_* stay hidden globals.
set(localize --localize-hidden)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^mips")
    set(localize)
endif()
# On 32-bit x86 the compiler shares a helper for position-independent code among objects, as a group of
# sections that a consumer brings as well: made local, ours would be dropped for theirs. So no groups.
set(merge)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^i.86$" OR CMAKE_C_FLAGS MATCHES "-m32")
    set(merge -Wl,--force-group-allocation)
endif()
set(one_object ${CMAKE_CURRENT_BINARY_DIR}/deckle.o)
separate_arguments(c_flags UNIX_COMMAND "${CMAKE_C_FLAGS}")
add_custom_command(OUTPUT ${one_object}
    COMMAND ${CMAKE_C_COMPILER} ${c_flags} -nostdlib ${merge} -r -o ${one_object}.tmp ${objects}
    COMMAND ${CMAKE_OBJCOPY} ${localize} ${one_object}.tmp ${one_object}
    COMMAND ${CMAKE_COMMAND} -E remove ${one_object}.tmp
    DEPENDS ${library_objects} ${objects}
    COMMENT "Linking C object deckle.o"
    COMMAND_EXPAND_LISTS VERBATIM)
add_library(deckle_static STATIC ${one_object})
set_source_files_properties(${one_object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
set_target_properties(deckle_static PROPERTIES OUTPUT_NAME deckle LINKER_LANGUAGE C)
target_link_libraries(deckle_static PUBLIC Threads::Threads)
target_include_directories(deckle_static INTERFACE
    $<BUILD_INTERFACE:${public_include}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

add_library(deckle::deckle ALIAS deckle_shared)
add_library(deckle::deckle_static ALIAS deckle_static)
