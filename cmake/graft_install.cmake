# What `cmake --install` gives: the program with its model, the library, headers, and how CMake and pkg-config find them.
# Constructors of operators are installed as graft/ops/<folder>.h, with graft/ops.h including them all.
include(CMakePackageConfigHelpers)

install(TARGETS graft EXPORT graft)
install(DIRECTORY include/graft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

file(GLOB folders RELATIVE ${PROJECT_SOURCE_DIR}/ops ${PROJECT_SOURCE_DIR}/ops/*/*.h
  ${PROJECT_SOURCE_DIR}/ops/fused/*/*.h)
set(lines "// ops.h — constructors of all built-in operators.\n#ifndef GRAFT_OPS_H\n#define GRAFT_OPS_H\n\n")
foreach(header IN LISTS folders)
  get_filename_component(folder ${header} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  get_filename_component(noun ${header} NAME_WE)
  if(noun STREQUAL folder)
    install(FILES ops/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/graft/ops)
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
install(FILES ${PROJECT_BINARY_DIR}/graft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(GRAFT_BUILD_GENERATOR)
  install(TARGETS graft-program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY models/emoji-zimage DESTINATION ${CMAKE_INSTALL_DATADIR}/graft/models)
endif()
