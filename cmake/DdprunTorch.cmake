# libtorch, and what of it can be used here. Debian's packages, an unpacked libtorch archive, and
# the torch of a Python environment, with
#   -DCMAKE_PREFIX_PATH="$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')"
# or, where CUDA's toolkit is missing, which that wants,
#   -DDDPRUN_TORCH_DIR="$(python3 -c 'import torch; print(torch.__path__[0])')"
#
#   ddprun_torch               how our own libtorch code is compiled
#   DDPRUN_TORCH_CXX_STANDARD  the oldest standard of C++ in which a program can use its headers
#   DDPRUN_TORCH_VERSION       as libtorch itself says it, perhaps empty
#   DDPRUN_TORCH_ABI           flags that code without libtorch needs, to be linked with it
include_guard(GLOBAL)

set(DDPRUN_TORCH_DIR "" CACHE PATH "A Python environment's folder torch, to be used without CUDA's toolkit")
if(DDPRUN_TORCH_DIR)
  include(DdprunTorchDir)
else()
  find_package(Torch REQUIRED GLOBAL)
endif()
separate_arguments(DDPRUN_TORCH_ABI UNIX_COMMAND "${TORCH_CXX_FLAGS}")
list(FILTER DDPRUN_TORCH_ABI INCLUDE REGEX "_GLIBCXX_USE_CXX11_ABI")
if(DDPRUN_TESTS AND DDPRUN_TORCH_ABI MATCHES "ABI=0")
  message(FATAL_ERROR
    "This libtorch was built for the old ABI of libstdc++ (${TORCH_CXX_FLAGS}), which no packaged "
    "GoogleTest has: configure with -DDDPRUN_TESTS=OFF, or use a libtorch of the C++11 ABI.")
endif()

# Its headers say which standard they want: C++14 in 1.13, 17 in 2.6, 20 in 2.14. Ours want 17.
set(DDPRUN_TORCH_CXX_STANDARD 17)
find_file(DDPRUN_TORCH_ALL_H torch/all.h PATHS ${TORCH_INCLUDE_DIRS} NO_DEFAULT_PATH REQUIRED)
mark_as_advanced(DDPRUN_TORCH_ALL_H)
file(STRINGS ${DDPRUN_TORCH_ALL_H} wanted REGEX "#error C[+][+][0-9]+ or later")
if(wanted MATCHES "C[+][+]([0-9]+) or later" AND CMAKE_MATCH_1 GREATER 17)
  set(DDPRUN_TORCH_CXX_STANDARD ${CMAKE_MATCH_1})
endif()
# For the folders beside worker/ too.
set(DDPRUN_TORCH_CXX_STANDARD ${DDPRUN_TORCH_CXX_STANDARD} CACHE INTERNAL "")
set(DDPRUN_TORCH_VERSION "${Torch_VERSION}" CACHE INTERNAL "")

include(DdprunGloo)

# Is there an NCCL backend in it, and can we compile against it? A Python environment has nccl.h in
# a folder beside torch.
find_path(DDPRUN_NCCL_INCLUDE_DIR nccl.h
          HINTS ${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include ${TORCH_INCLUDE_DIRS}
                ENV CUDA_HOME
                ENV NCCL_ROOT ENV NCCL_HOME
          PATH_SUFFIXES include)
find_path(DDPRUN_NCCL_C10D_DIR torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp
          HINTS ${TORCH_INCLUDE_DIRS})
mark_as_advanced(DDPRUN_NCCL_INCLUDE_DIR DDPRUN_NCCL_C10D_DIR)
if(TARGET torch_cuda AND DDPRUN_NCCL_INCLUDE_DIR AND DDPRUN_NCCL_C10D_DIR)
  set(nccl_available TRUE)
else()
  set(nccl_available FALSE)
endif()
if(NOT DDPRUN_NCCL MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DDPRUN_NCCL is '${DDPRUN_NCCL}', expected AUTO, ON or OFF.")
elseif(DDPRUN_NCCL STREQUAL "ON" AND NOT nccl_available)
  message(FATAL_ERROR
    "DDPRUN_NCCL=ON, but NCCL cannot be used here: it needs a libtorch built with CUDA and NCCL "
    "(target torch_cuda, header c10d/ProcessGroupNCCL.hpp) and nccl.h. Install those, point "
    "CMAKE_PREFIX_PATH or DDPRUN_NCCL_INCLUDE_DIR at them, or configure with -DDDPRUN_NCCL=OFF.")
elseif(DDPRUN_NCCL STREQUAL "AUTO" AND TARGET torch_cuda AND NOT nccl_available)
  message(WARNING "This libtorch has CUDA, but nccl.h or c10d/ProcessGroupNCCL.hpp is missing: "
                  "the library is built for Gloo alone.")
endif()
set(use_nccl FALSE)
if(nccl_available AND NOT DDPRUN_NCCL STREQUAL "OFF")
  set(use_nccl TRUE)
endif()
message(STATUS
  "ddp: libtorch ${Torch_VERSION}, C++${DDPRUN_TORCH_CXX_STANDARD} for its users, NCCL ${use_nccl}")

# The library, the example and the tests share one precompiled header, so their flags must be the
# same. Position independent, because a user may link the library into a shared one.
add_library(ddprun_torch INTERFACE)
target_link_libraries(ddprun_torch INTERFACE ddprun_options ${TORCH_LIBRARIES})
target_compile_definitions(ddprun_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_compile_options(ddprun_torch INTERFACE -fPIC)
target_include_directories(ddprun_torch SYSTEM INTERFACE ${DDPRUN_GLOO_INCLUDE_DIR})
if(DDPRUN_GLOO_FITS)
  target_compile_definitions(ddprun_torch INTERFACE DDPRUN_GLOO_FITS)
endif()
if(use_nccl)
  target_compile_definitions(ddprun_torch INTERFACE USE_C10D_NCCL)
  target_include_directories(ddprun_torch SYSTEM INTERFACE ${DDPRUN_NCCL_INCLUDE_DIR})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ddprun_torch INTERFACE -fpch-preprocess)  # lets ccache see through it
endif()
find_path(DDPRUN_AUTOGRAD_CONTEXT torch/csrc/distributed/autograd/context/context.h
          HINTS ${TORCH_INCLUDE_DIRS})
mark_as_advanced(DDPRUN_AUTOGRAD_CONTEXT)
if(NOT DDPRUN_AUTOGRAD_CONTEXT)
  target_include_directories(ddprun_torch SYSTEM INTERFACE
                             ${CMAKE_SOURCE_DIR}/worker/src/compat/include)
endif()

# Gives `target` the flags above and the shared precompiled header: what the public headers need of
# libtorch. torch/torch.h would cost every unit that uses the precompiled header 4 s more, for the
# templates of modules and data loaders. So we include what we use of it.
function(ddprun_use_torch target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:ddprun_torch>)
  if(target STREQUAL "ddp")
    target_precompile_headers(${target} PRIVATE
      <torch/types.h> <torch/nn/module.h> <torch/optim/optimizer.h>
      <torch/csrc/distributed/c10d/ProcessGroup.hpp>)
  else()
    target_precompile_headers(${target} REUSE_FROM ddp)
  endif()
  if(CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${CCACHE}")
  endif()
endfunction()
