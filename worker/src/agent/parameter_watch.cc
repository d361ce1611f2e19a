#include "worker/src/agent/parameter_watch.h"

namespace ddp::internal {

ParameterWatch& ParameterWatch::Process() {
  static ParameterWatch watch;
  return watch;
}

}  // namespace ddp::internal
