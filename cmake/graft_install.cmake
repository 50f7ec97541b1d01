# What `cmake --install` gives: the program with its model, the library, headers, and how CMake and pkg-config find them.
# Constructors of operators are installed as graft/ops/<folder>.h, with graft/ops.h including them all.
include(CMakePackageConfigHelpers)

# For plug-ins: headers alone, since they find graft in the program that loads them.
add_library(graft_plugin INTERFACE)
set_target_properties(graft_plugin PROPERTIES EXPORT_NAME plugin)
target_include_directories(graft_plugin INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS graft graft_plugin EXPORT graft)
# Headers whose code is not in the installed library stay behind: the generator is linked into the program only.
set(left_out PATTERN diffusion.h EXCLUDE)
if(NOT GRAFT_CUDA_FOUND)
  list(APPEND left_out PATTERN cuda.h EXCLUDE)
endif()
install(DIRECTORY include/graft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${left_out})

file(GLOB folders RELATIVE ${PROJECT_SOURCE_DIR}/ops ${PROJECT_SOURCE_DIR}/ops/*/*.h
  ${PROJECT_SOURCE_DIR}/ops/fused/*/*.h)
set(lines "// ops.h — constructors of all built-in operators.\n#ifndef GRAFT_OPS_H\n#define GRAFT_OPS_H\n\n")
foreach(header IN LISTS folders)
  get_filename_component(folder ${header} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  get_filename_component(noun ${header} NAME_WE)
  if(noun STREQUAL folder)
    # They include each other by where they are, which is another place once installed.
    file(READ ${PROJECT_SOURCE_DIR}/ops/${header} text)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/${header})
    string(REGEX REPLACE "#include \"ops/[a-z0-9_/]*/([a-z0-9_]+\\.h)\"" "#include \"graft/ops/\\1\"" text "${text}")
    file(CONFIGURE OUTPUT installed_ops/${noun}.h CONTENT "${text}" @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/installed_ops/${noun}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/graft/ops)
    string(APPEND lines "#include \"graft/ops/${noun}.h\"\n")
  endif()
endforeach()
string(APPEND lines "\n#endif\n")
file(CONFIGURE OUTPUT ops.h CONTENT "${lines}")
install(FILES ${PROJECT_BINARY_DIR}/ops.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/graft)

install(EXPORT graft NAMESPACE graft:: FILE graft-targets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/graft)
file(CONFIGURE OUTPUT graft-config.cmake CONTENT
  "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\ninclude(\"\${CMAKE_CURRENT_LIST_DIR}/graft-targets.cmake\")\n" @ONLY)
write_basic_package_version_file(graft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/graft-config.cmake ${PROJECT_BINARY_DIR}/graft-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/graft)
configure_file(cmake/graft.pc.in graft.pc @ONLY)
configure_file(cmake/graft-plugin.pc.in graft-plugin.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/graft.pc ${PROJECT_BINARY_DIR}/graft-plugin.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(GRAFT_BUILD_GENERATOR)
  install(TARGETS graft-program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY models/emoji-zimage DESTINATION ${CMAKE_INSTALL_DATADIR}/graft/models)
endif()
