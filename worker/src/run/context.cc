#include <ddp/collectives.h>
#include <ddp/context.h>
#include <ddp/errors.h>
#include <torch/csrc/distributed/c10d/debug.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "worker/contract/control.h"
#include "worker/contract/progress.h"
#include "worker/src/agent/control_client.h"
#include "worker/src/agent/generation_secret.h"
#include "worker/src/agent/launch_environment.h"
#include "worker/src/agent/launch_variables.h"
#include "worker/src/agent/own_stacks.h"
#include "worker/src/agent/parameter_watch.h"
#include "worker/src/agent/progress.h"
#include "worker/src/agent/standby.h"
#include "worker/src/agent/stray_sigterm.h"
#include "worker/src/base/malloc_retention.h"
#include "worker/src/base/time_slice.h"
#include "worker/src/group/failure.h"
#include "worker/src/group/gloo_loops.h"
#include "worker/src/group/nccl_group.h"
#include "worker/src/group/process_group.h"
#include "worker/src/peers/activity.h"
#include "worker/src/peers/lost_group.h"
#include "worker/src/peers/rank_failure_detector.h"
#include "worker/src/run/context_state.h"
#include "worker/src/run/warm_up.h"

namespace ddp {

namespace control = ddprun::control;
using internal::ControlClient;
using internal::Progress;

namespace {

// How long to wait for the page. The agent answers READY at once, unless the host is very busy, or
// the agent is of an earlier version without progress pages. Later calls try again.
constexpr std::chrono::milliseconds kPagePatience{50};

void TakeProgressPage(std::chrono::milliseconds patience = std::chrono::milliseconds(0)) {
  Progress::Process().TakePage(&ControlClient::Process(), patience);
}

}  // namespace

Context::Context(std::unique_ptr<State> state) : state_(std::move(state)) {}
Context::Context(Context&&) noexcept = default;

Context::~Context() {
  if (state_ == nullptr) return;  // moved from
  if (state_->in_place && ControlClient::Process().leaves()) {
    state_->Abandon();
    return;
  }
  bool well = std::uncaught_exceptions() <= state_->exceptions_at_start;
  if (well && state_->group.leave != nullptr) {
    try {
      state_->group.leave();  // waits for the other ranks, so it needs the failure detector
    } catch (const std::exception&) {
      well = false;
    }
  }
  if (!well || internal::GroupIsLost()) {
    internal::NoteEnd();
    // Keeps the last references for ever: see the header.
    state_->group.group.release();
    state_->store.release();
    return;  // keep the detector: the error that is unwinding may be a collective's
  }
  state_->TakeDown();
  Progress::Process().SetStage(ddprun::ProgressPhase::kEnd);
  ControlClient::Process().Send(control::kBye, "1");
}

void Context::State::EndCollectives() const {
  internal::EndCollectives(gloo_devices);
  if (group.abort == nullptr) return;
  internal::NoteLeft();  // first: a thread whose kernel ends must see that the group is lost
  try {
    group.abort();
  } catch (const std::exception&) {
    // Then this process does not leave, and the agent ends it.
  }
}

void Context::State::Leave() {
  const std::lock_guard<std::mutex> lock(leave_mutex);
  leaves = true;
  store_link.ShutDown();
  EndCollectives();
}

void Context::State::Keep(const std::function<void()>& keep) {
  const std::lock_guard<std::mutex> lock(leave_mutex);
  keep();
  if (!leaves) return;
  store_link.ShutDown();
  EndCollectives();
  throw CollectiveError("the generation ended while this rank joined it");
}

void Context::State::Abandon() {
  internal::NoteEnd();
  EndCollectives();  // otherwise the destructor of the group waits for running collectives
  TakeDown();
}

void Context::State::TakeDown() {
  internal::NoteEnd();
  const internal::GlooHaste for_the_group;
  internal::SetProcessFailureDetector(nullptr);
  detector.reset();
  group = {};
  gloo_devices.clear();
  store.reset();
  store_link = {};
}

int Context::rank() const { return state_->env.rank; }
int Context::world_size() const { return state_->env.world_size; }
int Context::local_rank() const { return state_->env.local_rank; }
int Context::local_world_size() const { return state_->env.local_world_size; }
int Context::generation() const { return state_->env.generation; }
int Context::restart_count() const { return state_->env.restart_count; }
c10::Device Context::device() const { return state_->device; }
const std::string& Context::backend() const { return state_->backend; }
std::chrono::milliseconds Context::timeout() const { return state_->timeout; }
c10::intrusive_ptr<c10d::ProcessGroup> Context::process_group() const {
  return state_->group.group;
}
bool Context::carries_cpu_tensors() const { return state_->group.carries_cpu_tensors; }
c10::intrusive_ptr<c10d::Store> Context::store() const { return state_->store; }

void Context::report_step(std::int64_t step) const {
  TakeProgressPage();
  Progress::Process().FinishStep(step);
  ControlClient::Process().Send(control::kStep, std::to_string(step));
}

void Context::report_checkpoint(std::int64_t step, const std::string& path) const {
  ControlClient::Process().Send(control::kCheckpoint, std::to_string(step) + " " + path);
}

void Context::report_checkpoint_failed(std::int64_t step, std::int64_t failures,
                                       const std::string& reason) const {
  ControlClient::Process().Send(
      control::kCheckpointFailed,
      std::to_string(step) + " " + std::to_string(failures) + " " + reason);
}

void Context::report_phase(const std::string& name) const {
  // The agent closes the connection of a worker that sends an empty or a longer name.
  const std::string phase = name.substr(0, ddprun::kProgressNameBytes);
  if (phase.empty()) return;
  TakeProgressPage();
  Progress::Process().SetStage(ddprun::ProgressPhaseOf(phase), phase);
  ControlClient::Process().Send(control::kPhase, phase);
}

void Context::report_error(const std::string& kind, const std::string& text) const {
  ControlClient::Process().Send(control::kError, kind + " " + text);
}

class Phase::Scope {
 public:
  explicit Scope(const std::string& name) : scope_(ddprun::ProgressPhaseOf(name), name) {}

 private:
  const Progress::Scope scope_;
};

Phase::Phase(const Context&, const std::string& name) {
  TakeProgressPage();
  scope_ = std::make_unique<Scope>(name);
}
Phase::~Phase() = default;

OptimizerStep::OptimizerStep(const Context&) {
  internal::ParameterWatch::Process().OptimizerStepBegins();
  Progress::Process().SetInOptimizerStep(true);
}
OptimizerStep::~OptimizerStep() { Progress::Process().SetInOptimizerStep(false); }

namespace {

constexpr char kPeersKey[] = "ddp/peers";

// Ignores SIGPIPE, unless the program has set its own action.
void IgnoreBrokenPipes() {
  struct sigaction action = {};
  if (sigaction(SIGPIPE, nullptr, &action) != 0) return;
  if ((action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

// Rank 0 publishes its contact before it joins. The contact is empty if rank 0 cannot listen.
std::shared_ptr<internal::RankFailureDetector> ListenForPeers(
    const internal::LaunchEnvironment& env, c10d::Store* store) {
  std::shared_ptr<internal::RankFailureDetector> detector;
  std::string contact;
  try {
    detector = std::make_shared<internal::RankFailureDetector>(
        env.world_size, internal::CurrentActivity, internal::GenerationSecret());
    contact = detector->contact();
  } catch (const std::exception&) {
    // Errors then name fewer causes.
  }
  store->set(kPeersKey, std::vector<std::uint8_t>(contact.begin(), contact.end()));
  return detector;
}

std::shared_ptr<internal::RankFailureDetector> ConnectToPeers(
    const internal::LaunchEnvironment& env, c10d::Store* store) {
  try {
    const std::vector<std::uint8_t> contact = store->get(kPeersKey);
    if (contact.empty()) return nullptr;
    return std::make_shared<internal::RankFailureDetector>(
        env.master_addr, std::string(contact.begin(), contact.end()), env.rank, env.world_size,
        internal::CurrentActivity, internal::GenerationSecret());
  } catch (const std::exception&) {
    return nullptr;  // errors then name fewer causes
  }
}

}  // namespace

void Context::State::BeginWithAgent(const Options& options) {
  const bool keeps_memory = options.keep_freed_memory && internal::RetainFreedMemory(std::getenv);
  ControlClient& agent = ControlClient::Process();
  if (internal::IsStandby()) {
    internal::WarmUp(options);
    if (keeps_memory) internal::TakeMemoryAhead(options.warm_memory);
    internal::WaitAsStandby(&agent);
  }
  agent.Send(control::kPhase, control::kPhaseInit);
  agent.Send(control::kSaves, "0");  // until a Checkpointer sends SAVES=1
  if (agent.AgentPid() == 0) return;
  internal::WriteOwnStacksOnSignal();
  if (std::getenv("SLURM_JOB_ID") != nullptr) internal::LeaveStraySigtermTo(agent.AgentPid());
}

Context init(const Options& options) {
  Context::State::BeginWithAgent(options);
  auto state = std::make_unique<Context::State>();
  state->Join(options);
  return Context(std::move(state));
}

void Context::State::Join(Options options) {
  if (!options.timeout) options.timeout = internal::DefaultTimeout(internal::LaunchVariable);
  env = internal::ReadLaunchEnvironment(internal::LaunchVariable);
  backend = internal::ChooseBackend(options.backend);
  // STAYS=1 is sent before anything can wait for a rank that dies. NCCL can be left only once it is
  // connected.
  if (in_place && backend == "gloo") ControlClient::Process().SendStays();
  if (backend == "nccl") internal::SetNcclSettings(in_place && internal::kNcclCanBeLeft);
  internal::FetchGenerationSecret(&ControlClient::Process());
  internal::NoteNewGroup();
  Progress::Process().BeginGeneration(env.generation);
  timeout = *options.timeout;
  auto link = internal::StoreLink::Of([&] { store = internal::MakeStore(env, options); },
                                      in_place ? env.master_port : 0);
  Keep([&] { store_link = std::move(link); });
  const bool alone = env.world_size == 1;
  if (!alone) IgnoreBrokenPipes();
  internal::GlooDevices devices;  // also for a restore, with any backend
  std::string address;
  try {                                    // these may fail on one rank only
    c10d::setDebugLevelFromEnvironment();  // like `import torch.distributed`
    device = internal::ChooseDevice(options.device, backend, env);
    const internal::ShortestTimeSlice of_gloos_threads;
    devices = internal::MakeGlooDevices(env);
    address = internal::AddressOf(devices);
  } catch (const std::exception& e) {
    internal::RefuseToJoin(env, e.what(), store.get());
    throw;
  }
  Keep([&] { gloo_devices = devices; });
  if (!alone && env.rank == 0) detector = ListenForPeers(env, store.get());
  internal::WaitForAllRanks(env, options, backend, device, address, store.get());
  if (!alone && env.rank != 0) detector = ConnectToPeers(env, store.get());
  internal::SetProcessFailureDetector(detector);
  {
    const internal::ShortestTimeSlice of_gloos_threads;
    internal::Group made = internal::MakeGroup(env, options, backend, device, devices, store);
    Keep([&] {
      group = std::move(made);
      if (!group.carries_cpu_tensors) gloo_devices.clear();
    });
  }
  if (in_place) internal::WatchForFailure(group.failed);
  internal::LossPlan plan;
  plan.abort = group.abort;
  plan.end = internal::EndBecauseOfLoss;
  internal::ActWhenLost(detector.get(), std::move(plan));
  ControlClient::Process().Send(control::kReady, "1");
  ControlClient::Process().Send(control::kStandby, control::kAble);
  TakeProgressPage(kPagePatience);
  Progress::Process().SetStage(ddprun::ProgressPhase::kFirstStep);
}

}  // namespace ddp
