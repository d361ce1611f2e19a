// Checks an argument that names a rank.
#ifndef DDPRUN_WORKER_SRC_COLLECTIVES_CHECK_ROOT_H_
#define DDPRUN_WORKER_SRC_COLLECTIVES_CHECK_ROOT_H_

#include <ddp/context.h>
#include <ddp/errors.h>

#include <string>

namespace ddp::internal {

// Throws ConfigError unless `root` is a rank of `ctx`. The error's text begins with `what`, for
// example "broadcast from".
inline void CheckRoot(const Context& ctx, const std::string& what, int root) {
  if (root >= 0 && root < ctx.world_size()) return;
  throw ConfigError(what + " rank " + std::to_string(root) + " in a job of " +
                    std::to_string(ctx.world_size()) + " ranks");
}

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_COLLECTIVES_CHECK_ROOT_H_
