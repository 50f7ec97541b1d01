# Cross build for arm64 Linux with GCC; test programs run under qemu-user. scripts/arm64_sysroot fetches the libraries.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

set(graft_sysroot ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot)
set(graft_libraries ${graft_sysroot}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${graft_libraries}/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${graft_sysroot})
set(CMAKE_FIND_ROOT_PATH ${graft_sysroot} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# Libraries of the sysroot refer to each other by plain names.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${graft_libraries}:${graft_sysroot}/lib/aarch64-linux-gnu")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${graft_libraries}:${graft_sysroot}/lib/aarch64-linux-gnu)
