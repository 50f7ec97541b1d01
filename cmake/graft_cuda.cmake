# CUDA: found by its compiler, nvcc; without it the project builds without the backend. The program needs neither the
# toolkit nor a GPU to start: driver and libraries are loaded at run time.
#
# graft_cuda_module(TARGET SOURCE): compiles SOURCE (X.cu) for the cards of GRAFT_CUDA_TARGETS into one fat binary and
# adds it to TARGET as the array graft_cuda_image_X.
if(CMAKE_CROSSCOMPILING)
  set(graft_cuda_default OFF)
else()
  set(graft_cuda_default ON)
endif()
option(GRAFT_CUDA "Build the CUDA backend where nvcc is found" ${graft_cuda_default})
set(GRAFT_CUDA_TARGETS 75 80 86 89 90a 100 120 CACHE STRING
  "Cards to compile device code for; the last plain one is added as PTX for newer cards")
set(GRAFT_CUDA_FOUND OFF)
if(GRAFT_CUDA)
  find_program(GRAFT_NVCC nvcc HINTS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin)
  if(GRAFT_NVCC)
    file(REAL_PATH ${GRAFT_NVCC} nvcc)
    get_filename_component(root ${nvcc} DIRECTORY)
    get_filename_component(root ${root} DIRECTORY)
    find_path(GRAFT_CUDA_INCLUDE cuda.h HINTS ${root}/include ${root}/targets/x86_64-linux/include)
    find_path(GRAFT_CUBLAS_INCLUDE cublasLt.h HINTS ${GRAFT_CUDA_INCLUDE} ${root}/include)
  endif()
  if(GRAFT_NVCC AND GRAFT_CUDA_INCLUDE AND GRAFT_CUBLAS_INCLUDE)
    set(GRAFT_CUDA_FOUND ON)
  else()
    message(STATUS "No CUDA toolkit (nvcc, cuda.h, cublasLt.h): building without the CUDA backend")
  endif()
endif()

set(GRAFT_CUDA_FLAGS -std=c++17 --threads 1 -fmad=true -Xcompiler -Wall -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include)
if(GRAFT_WERROR)
  list(APPEND GRAFT_CUDA_FLAGS -Werror all-warnings)
endif()
foreach(target IN LISTS GRAFT_CUDA_TARGETS)
  list(APPEND GRAFT_CUDA_FLAGS -gencode arch=compute_${target},code=sm_${target})
  if(NOT target MATCHES "a$")
    set(graft_ptx_target ${target})
  endif()
endforeach()
if(graft_ptx_target)
  list(APPEND GRAFT_CUDA_FLAGS -gencode arch=compute_${graft_ptx_target},code=compute_${graft_ptx_target})
endif()

function(graft_cuda_module target source)
  get_filename_component(noun ${source} NAME_WE)
  set(base ${CMAKE_CURRENT_BINARY_DIR}/${noun})
  get_filename_component(path ${source} ABSOLUTE)
  add_custom_command(OUTPUT ${base}.fatbin
    COMMAND ${GRAFT_NVCC} ${GRAFT_CUDA_FLAGS} -fatbin -MD -MF ${base}.d -MT ${base}.fatbin -o ${base}.fatbin ${path}
    DEPENDS ${path} DEPFILE ${base}.d COMMENT "Compiling device code ${noun}.cu" VERBATIM)
  # The assembler includes the file, which is much faster than a list of numbers for the compiler.
  set(name graft_cuda_image_${noun})
  file(CONFIGURE OUTPUT ${base}_image.c CONTENT
"__asm__(\".section .rodata\\n.balign 64\\n.globl @name@\\n.hidden @name@\\n@name@:\\n.incbin \\\"@base@.fatbin\\\"\\n.previous\\n\");\n" @ONLY)
  set_source_files_properties(${base}_image.c PROPERTIES OBJECT_DEPENDS ${base}.fatbin)
  target_sources(${target} PRIVATE ${base}_image.c)
  if("90a" IN_LIST GRAFT_CUDA_TARGETS)
    target_compile_definitions(${target} PRIVATE GRAFT_CUDA_HAS_90A)
  endif()
endfunction()
