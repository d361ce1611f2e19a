// The members of a ddp::Context.
#ifndef DDPRUN_WORKER_SRC_RUN_CONTEXT_STATE_H_
#define DDPRUN_WORKER_SRC_RUN_CONTEXT_STATE_H_

#include <ddp/context.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/group/nccl_group.h"
#include "worker/src/group/process_group.h"
#include "worker/src/group/store_link.h"
#include "worker/src/peers/rank_failure_detector.h"

namespace ddp {

struct Context::State {
  // Reports to the agent. A standby waits here until it has a rank.
  static void BeginWithAgent(const Options& options);
  // Joins the group. Throws if Leave() is called meanwhile. With Gloo and in_place, first tells the
  // agent that this process can leave.
  void Join(Options options);
  // Runs one generation of run_in_place(). Returns the exit code. nullopt: this process has left
  // the generation.
  static std::optional<int> RunGeneration(const std::function<int(Context&)>& body,
                                          const Options& options);

  // Ends Join(), and the collectives after it. Any thread.
  void Leave();
  // Calls `keep`, which sets a member that Leave() uses. Throws CollectiveError if Leave() was
  // called: then the member is ended already.
  void Keep(const std::function<void()>& keep);

  // True if this process can leave its generation and continue. Valid once Join() has chosen the
  // backend.
  bool CanLeave() const { return backend == "gloo" || internal::kNcclCanBeLeft; }
  // Ends the running collectives. Any thread.
  void EndCollectives() const;
  // Leaves the group; no collective may be running.
  void TakeDown();
  // Leaves the group; running collectives fail.
  void Abandon();

  internal::LaunchEnvironment env;
  bool in_place = false;  // in run_in_place(), which may leave a group that is in use
  std::string backend;
  c10::Device device{c10::kCPU};
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> store;
  internal::StoreLink store_link;  // in_place only
  // Null if the job has one rank, or if the other ranks cannot be reached.
  std::shared_ptr<internal::RankFailureDetector> detector;
  internal::Group group;
  internal::GlooDevices gloo_devices;  // of the group, if Gloo carries its tensors
  int exceptions_at_start = std::uncaught_exceptions();

  std::mutex leave_mutex;  // guards `leaves`, and the members that Keep() sets
  bool leaves = false;
};

}  // namespace ddp

#endif  // DDPRUN_WORKER_SRC_RUN_CONTEXT_STATE_H_
