# Gloo, as libtorch uses it.
#
#   DDPRUN_GLOO_INCLUDE_DIR  its headers, which c10d's headers of the Gloo backend include
#   DDPRUN_GLOO_LIBRARY      the library with its functions; empty where libtorch has them itself
#   DDPRUN_GLOO_FITS         whether these headers are those of these functions, so that a class of
#                            ours can derive from Gloo's (worker/src/group/abortable_device.h)
include_guard(GLOBAL)
include(CheckCXXSourceCompiles)

# Some builds of libtorch leave them out.
find_path(DDPRUN_GLOO_INCLUDE_DIR gloo/algorithm.h HINTS ${TORCH_INCLUDE_DIRS})
mark_as_advanced(DDPRUN_GLOO_INCLUDE_DIR)
if(NOT DDPRUN_GLOO_INCLUDE_DIR)
  message(FATAL_ERROR
    "gloo/algorithm.h not found: this libtorch comes without Gloo's headers. Install them (Debian: "
    "libgloo-dev), or name their folder with -DDDPRUN_GLOO_INCLUDE_DIR=DIR.")
endif()

# Sets `result` to whether programs can call the function `name`(`parameter`) of
# gloo::transport::Context, whatever the headers say.
function(ddprun_gloo_has result name parameter)
  set(CMAKE_REQUIRED_FLAGS "${TORCH_CXX_FLAGS}")
  set(CMAKE_REQUIRED_LIBRARIES ${TORCH_LIBRARIES})
  if(DDPRUN_GLOO_LIBRARY)
    list(APPEND CMAKE_REQUIRED_LIBRARIES ${DDPRUN_GLOO_LIBRARY})
  endif()
  check_cxx_source_compiles("
    #include <memory>
    namespace gloo {
    class IStore;
    namespace transport {
    struct Context {
      void ${name}(${parameter});
    };
    }
    }
    int main() {
      auto volatile function = &gloo::transport::Context::${name};
      return function == nullptr;
    }" ${result})
endfunction()

ddprun_gloo_has(DDPRUN_TORCH_HAS_GLOO getPair int)
if(NOT DDPRUN_TORCH_HAS_GLOO)
  find_library(DDPRUN_GLOO_LIBRARY gloo)
  mark_as_advanced(DDPRUN_GLOO_LIBRARY)
  if(NOT DDPRUN_GLOO_LIBRARY)
    message(FATAL_ERROR
      "libgloo not found, and this libtorch has none of Gloo's functions for programs to call. "
      "Install it (Debian: libgloo-dev), or name the file with -DDDPRUN_GLOO_LIBRARY=FILE.")
  endif()
endif()

# How the ranks are connected differs between versions, and with it the order of virtual functions.
ddprun_gloo_has(DDPRUN_GLOO_TAKES_REFERENCE createAndConnectAllPairs IStore&)
ddprun_gloo_has(DDPRUN_GLOO_TAKES_POINTER createAndConnectAllPairs std::shared_ptr<IStore>)
file(STRINGS ${DDPRUN_GLOO_INCLUDE_DIR}/gloo/transport/context.h connect
     REGEX "createAndConnectAllPairs")
set(DDPRUN_GLOO_FITS FALSE)
if((connect MATCHES "IStore *&" AND DDPRUN_GLOO_TAKES_REFERENCE) OR
   (connect MATCHES "shared_ptr" AND DDPRUN_GLOO_TAKES_POINTER) OR
   (NOT connect AND NOT DDPRUN_GLOO_TAKES_REFERENCE AND NOT DDPRUN_GLOO_TAKES_POINTER))
  set(DDPRUN_GLOO_FITS TRUE)
else()
  message(WARNING
    "Gloo's headers in ${DDPRUN_GLOO_INCLUDE_DIR} are of another version than the Gloo of this "
    "libtorch: with ddp::run_in_place some workers that could stay will be ended. "
    "-DDDPRUN_GLOO_INCLUDE_DIR=DIR names the folder of others.")
endif()
