# The torch of a Python environment (-DDDPRUN_TORCH_DIR=.../site-packages/torch) by its headers and
# libraries alone. Its own CMake files want the CUDA toolkit, which nothing here needs: no code of
# ours is compiled by nvcc, and CUDA's headers lie beside torch, in the packages nvidia-*.
#
# Sets what find_package(Torch) does, as far as DdprunTorch.cmake uses it.
include_guard(GLOBAL)

set(TORCH_INSTALL_PREFIX ${DDPRUN_TORCH_DIR})
set(torch_api ${DDPRUN_TORCH_DIR}/include/torch/csrc/api/include)
foreach(file ${torch_api}/torch/torch.h ${DDPRUN_TORCH_DIR}/lib/libtorch_cpu.so
             ${DDPRUN_TORCH_DIR}/lib/libc10.so)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "DDPRUN_TORCH_DIR=${DDPRUN_TORCH_DIR}: no ${file}. It is to be the folder "
                        "that has torch's include and lib: python3 -c 'import torch; print(torch)'")
  endif()
endforeach()

set(Torch_VERSION "")
if(EXISTS ${DDPRUN_TORCH_DIR}/version.py)
  file(STRINGS ${DDPRUN_TORCH_DIR}/version.py line REGEX "^__version__ *(:.*)?=" LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" Torch_VERSION "${line}")
endif()

# Which of libstdc++'s ABIs its functions with strings have.
file(STRINGS ${DDPRUN_TORCH_DIR}/lib/libc10.so new_abi REGEX "_ZN3c10.*__cxx11" LIMIT_COUNT 1)
if(new_abi)
  set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")
else()
  set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")
endif()

set(TORCH_INCLUDE_DIRS ${DDPRUN_TORCH_DIR}/include ${torch_api})
set(torch_names torch_cpu c10)
if(EXISTS ${DDPRUN_TORCH_DIR}/lib/libtorch_cuda.so)
  # A toolkit first, where there is one: its headers are complete. NCCL's own: see DdprunTorch.cmake.
  find_path(DDPRUN_CUDA_INCLUDE_DIR cuda_runtime_api.h
            HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES include)
  mark_as_advanced(DDPRUN_CUDA_INCLUDE_DIR)
  if(DDPRUN_CUDA_INCLUDE_DIR)
    list(APPEND TORCH_INCLUDE_DIRS ${DDPRUN_CUDA_INCLUDE_DIR})
  endif()
  file(GLOB beside ${DDPRUN_TORCH_DIR}/../nvidia/*/include)
  list(APPEND TORCH_INCLUDE_DIRS ${beside})
  list(APPEND torch_names torch_cuda c10_cuda)
  add_library(torch_cuda INTERFACE IMPORTED GLOBAL)  # "it has CUDA"
endif()

# Nobody calls libtorch_cuda by name, so the linker would leave it out, and there would be no CUDA.
# What the libraries need of CUDA's own, they find themselves when they are loaded. libstdc++ is the
# shared one that they use: some compilers link a static one by default, and a process with two of
# them aborts ("free(): invalid pointer") when a C++ object of the one is destroyed by the other.
list(TRANSFORM torch_names REPLACE "(.+)" "${DDPRUN_TORCH_DIR}/lib/lib\\1.so" OUTPUT_VARIABLE torch_files)
list(APPEND torch_files -l:libstdc++.so.6)
list(JOIN torch_files "," torch_files)
add_library(torch INTERFACE IMPORTED GLOBAL)
set_target_properties(torch PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}"
  INTERFACE_COMPILE_OPTIONS "${TORCH_CXX_FLAGS}"
  INTERFACE_LINK_LIBRARIES "-Wl,--no-as-needed,${torch_files},--as-needed"
  INTERFACE_LINK_OPTIONS
    "-Wl,--allow-shlib-undefined,-rpath,${DDPRUN_TORCH_DIR}/lib;-pthread")
set(TORCH_LIBRARIES torch)
