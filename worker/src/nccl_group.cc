#include "worker/src/nccl_group.h"

#include <ddp/errors.h>

#include <cstdlib>

#include "worker/src/compat.h"

#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace ddp::internal {

#ifdef USE_C10D_NCCL

const bool kHasNccl = true;

NcclGroup MakeNcclGroup(const LaunchEnvironment& env, const Options& options,
                        const c10::intrusive_ptr<c10d::Store>& store) {
  auto nccl_options = c10d::ProcessGroupNCCL::Options::create();
  nccl_options->timeout = options.timeout;
  const auto nccl =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, env.rank, env.world_size, nccl_options);
  return {compat::AsProcessGroup<c10d::ProcessGroup>(nccl, store, {c10::kCUDA}, /*is_nccl=*/true),
          compat::AbortOf(nccl)};
}

#else

const bool kHasNccl = false;

NcclGroup MakeNcclGroup(const LaunchEnvironment&, const Options&,
                        const c10::intrusive_ptr<c10d::Store>&) {
  throw ConfigError("this program was built without NCCL");
}

#endif

void SetNcclSettings() {
  for (const NcclSetting& setting : kNcclSettings) setenv(setting.name, setting.value, 0);
}

}  // namespace ddp::internal
