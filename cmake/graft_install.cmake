# What `cmake --install` gives: the program with its model, the libraries, headers, and how CMake and pkg-config find
# them.
# Constructors of operators are installed as graft/ops/<folder>.h, with graft/ops.h including them all.
include(CMakePackageConfigHelpers)

# For plug-ins: headers alone, since they find graft in the program that loads them.
add_library(graft_plugin INTERFACE)
set_target_properties(graft_plugin PROPERTIES EXPORT_NAME plugin)
target_include_directories(graft_plugin INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS graft graft_plugin EXPORT graft)
# Headers whose code is not installed stay behind.
set(left_out "")
if(NOT GRAFT_BUILD_GENERATOR)
  list(APPEND left_out PATTERN diffusion.h EXCLUDE)
endif()
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
    list(APPEND nouns ${noun})
    string(REGEX MATCHALL "\"graft/ops/[a-z0-9_]+\\.h\"" included "${text}")
    list(APPEND needed ${included})
  endif()
endforeach()
foreach(include IN LISTS needed)
  string(REGEX REPLACE "\"graft/ops/([a-z0-9_]+)\\.h\"" "\\1" noun ${include})
  if(NOT noun IN_LIST nouns)
    message(FATAL_ERROR "a constructor's header includes ${noun}.h, which is no constructor's and is not installed")
  endif()
endforeach()
string(APPEND lines "\n#endif\n")
file(CONFIGURE OUTPUT ops.h CONTENT "${lines}")
install(FILES ${PROJECT_BINARY_DIR}/ops.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/graft)

install(EXPORT graft NAMESPACE graft:: FILE graft-targets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/graft)
configure_file(cmake/graft-config.cmake.in graft-config.cmake COPYONLY)
write_basic_package_version_file(graft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/graft-config.cmake ${PROJECT_BINARY_DIR}/graft-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/graft)
configure_file(cmake/graft.pc.in graft.pc @ONLY)
configure_file(cmake/graft-plugin.pc.in graft-plugin.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/graft.pc ${PROJECT_BINARY_DIR}/graft-plugin.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(GRAFT_BUILD_GENERATOR)
  # A package of its own, because it needs other libraries; static also where graft is shared.
  set_target_properties(graft_diffusion PROPERTIES EXPORT_NAME generator)
  set_target_properties(graft_formats PROPERTIES EXPORT_NAME formats)
  install(TARGETS graft_diffusion graft_formats EXPORT graft-generator)
  install(EXPORT graft-generator NAMESPACE graft:: FILE graft-generator-targets.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/graft)
  configure_file(cmake/graft-generator.pc.in graft-generator.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/graft-generator.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  # The program finds a shared graft from its own place.
  file(RELATIVE_PATH libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(graft-program PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries}")
  install(TARGETS graft-program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY models/emoji-zimage DESTINATION ${CMAKE_INSTALL_DATADIR}/graft/models)
endif()
