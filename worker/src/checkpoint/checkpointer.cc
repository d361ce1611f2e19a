#include <ddp/checkpointer.h>
#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/src/agent/control_client.h"
#include "worker/src/agent/launch_variables.h"
#include "worker/src/agent/progress.h"
#include "worker/src/checkpoint/end_snapshot.h"
#include "worker/src/checkpoint/save_reports.h"
#include "worker/src/checkpoint/state_texts.h"
#include "worker/src/checkpoint/step_agreement.h"
#include "worker/src/checkpoint/step_share.h"
#include "worker/src/data_parallel/model_sync.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/group/failure.h"
#include "worker/src/peers/lost_group.h"
#include "worker/src/restore/refusal.h"
#include "worker/src/restore/state_search.h"
#include "worker/src/restore/state_stream.h"
#include "worker/src/state/rng_state.h"
#include "worker/src/state/staging_buffer.h"
#include "worker/src/state/state_image.h"
#include "worker/src/state/training_state.h"
#include "worker/src/storage/checkpoint_folder.h"
#include "worker/src/storage/checkpoint_writer.h"
#include "worker/src/storage/folder_owner.h"
#include "worker/src/storage/lineage.h"
#include "worker/src/storage/restore_order.h"
#include "worker/src/storage/set_aside.h"
#include "worker/src/storage/snapshot_schedule.h"

namespace ddp {
namespace {

using internal::FoundState;
using internal::Metadata;
using internal::NamedTensor;
using internal::StateImage;
using internal::StatePart;
using internal::TensorInfo;
using nlohmann::json;

constexpr auto GetEnvironment = internal::LaunchVariable;

// Returns rank 0's status on every rank. A collective.
SaveStatus Share(const Context& ctx, const SaveStatus& s) {
  const json mine = {s.saved,        s.failed,       s.skipped, s.writing,
                     s.durable_step, s.durable_path, s.error};
  const std::string text = mine.dump(-1, ' ', false, json::error_handler_t::replace);
  const json j = json::parse(broadcast(ctx, text));
  return {j[0], j[1], j[2], j[3], j[4], j[5], s.snapshot_step, j[6]};
}

// Calls `action`. If it throws on any rank, AgreedError is thrown on all ranks. A collective.
template <typename Action>
void Together(const Context& ctx, const std::string& what, const Action& action) {
  std::string problem;
  try {
    action();
  } catch (const CollectiveError&) {
    throw;  // this rank can no longer reach the others
  } catch (const std::exception& e) {
    problem = what + internal::TextOf(e);
  }
  throw_if_any_failed(ctx, problem);
}

}  // namespace

struct Checkpointer::Impl {
  using Clock = std::chrono::steady_clock;

  // Constant after construction.
  const Context& ctx;  // the user's; outlives this
  const std::string directory;
  const CheckpointerOptions options;

  struct {
    internal::Lineage lineage = internal::Lineage::OfProcess(GetEnvironment);
    bool claimed = false;  // the folder is claimed, or its owner file could not be read
    int exceptions_at_start = std::uncaught_exceptions();
  } run;
  SaveStatus known;  // the newest status that rank 0 sent
  struct {
    bool followed_order = false;
    std::optional<std::int64_t> step;   // of the state that was loaded
    std::vector<std::string> rejected;  // states that load_latest() could not load
  } loaded;

  // Used on rank 0 only. The writer reads from the buffer. So the writer is declared after the
  // buffer, and destroyed before it.
  internal::StagingBuffer staging;
  internal::CheckpointWriter writer;

  // Used by step().
  internal::StepAgreement agreement;
  internal::SnapshotSchedule schedule;
  internal::PackedBroadcast buffers_of_rank0;
  internal::StagingBuffer snapshot_staging;           // for GPU tensors
  internal::SnapshotTurn turn;                        // destroyed after `snapshots`
  std::optional<internal::SnapshotWriter> snapshots;  // on local rank 0, from the first step on
  std::optional<internal::LiveState> live;   // set if keeps_live() and the node has snapshot memory
  std::optional<internal::StepShare> share;  // the same on all ranks, also without `live`
  std::optional<Clock::time_point> last_step;  // null before the first step
  std::int64_t steps_since_snapshot = 0;
  std::int64_t saves_done = 0;  // SAVE=1 messages of the agent that led to a save

  Impl(const Context& context, std::string folder, const CheckpointerOptions& given)
      : ctx(context),
        directory(std::move(folder)),
        options(given),
        writer(directory, {given.keep_last, given.keep_every}, internal::ReportsOf(ctx),
               internal::OwnerOfProcess(GetEnvironment), OwnerOptions()),
        agreement(context),
        schedule(given.snapshot_every, given.snapshot_interval) {
    const char* const memory = internal::LaunchVariable(ddprun::env::kSnapshotDir);
    if (memory != nullptr && keeps_live()) live.emplace(ctx, memory);
    if (keeps_live() && options.share_each_step && ctx.world_size() > 1) share.emplace(ctx);
    if (memory != nullptr) turn.In(memory);
    if (saves()) internal::ControlClient::Process().Send(ddprun::control::kSaves, "1");
  }

  static constexpr char kWaits[] = "waits";

  static internal::FolderOwnerOptions OwnerOptions() {
    internal::FolderOwnerOptions owner;
    owner.take_folder = internal::LaunchVariable(ddprun::env::kTakeFolder) != nullptr;
    return owner;
  }

  // The same on all ranks.
  bool keeps_live() const { return options.snapshots && internal::LiveState::IsFor(ctx); }
  bool saves() const { return !directory.empty() && !options.read_only; }

  // Claims the folder. Call it before the folder is first read or written. Uses many short
  // collectives, because rank 0 may wait for longer than Options::timeout.
  void Claim() {
    if (!saves() || std::exchange(run.claimed, true)) return;
    for (bool first = true;; first = false) {
      const std::string said = broadcast(ctx, ctx.rank() == 0 ? TryClaim(first) : "");
      if (said.empty()) return;
      if (said != kWaits) throw FolderTakenError("rank 0: " + said, 0, ctx.rank() == 0);
    }
  }

  // "": the folder is claimed, or its owner file cannot be read. kWaits: the owner may still run.
  // Any other text: why the claim is refused.
  std::string TryClaim(bool first) {
    if (!first) std::this_thread::sleep_for(writer.look());
    try {
      return writer.TryClaim() ? "" : kWaits;
    } catch (const internal::FolderTaken& e) {
      return e.what();
    } catch (const CheckpointError& e) {  // each save tries again, and warns
      internal::Warn(0, std::string("the checkpoint folder is not claimed: ") + e.what());
      return "";
    }
  }

  // True if a checkpoint shall be made now.
  bool Ready(WhenBusy when_busy) {
    if (when_busy == WhenBusy::kSkip && writer.busy()) {
      writer.CountSkipped();
      return false;
    }
    writer.Wait();
    return true;
  }

  void Begin(std::int64_t step, const StateImage& image, Metadata metadata) {
    try {
      std::byte* const memory = staging.Reserve(image.bytes(), image.has_gpu_tensors());
      internal::CheckpointImage copy = image.CopyTo(memory);
      copy.step = step;
      copy.metadata = std::move(metadata);
      writer.Start(std::move(copy));
    } catch (const std::exception& e) {
      writer.Fail(step, internal::TextOf(e));
    }
  }

  // The metadata of a state, without the generators.
  Metadata TextsOf(const State& state, const CheckpointParts& parts) const {
    Metadata metadata = internal::TextsOf(parts);
    internal::AddPlace(state, ctx.world_size(), &metadata);
    internal::AddMaker(GetEnvironment, &metadata);
    run.lineage.AddTo(&metadata);
    return metadata;
  }

  void AddGenerators(Metadata* metadata) const {
    (*metadata)["rng"] = internal::GatherRngStates(ctx, torch::Device(torch::kCPU));
    if (!ctx.device().is_cuda()) return;
    (*metadata)["rng_cuda"] = internal::GatherRngStates(ctx, ctx.device());
  }

  std::string Save(const State& state, const CheckpointParts& parts, WhenBusy when_busy);
  void BeginSteps(const CheckpointParts& parts);
  internal::StepAgreement::Values Wishes() const;
  void Snapshot(const State& state, const CheckpointParts& parts);
  std::optional<State> Load(const internal::WhereToLook& where, const CheckpointParts& parts);
  // nullopt: the rank's node does not have it. Waits for folders that cannot be listed.
  std::optional<State> LoadUnseen(const internal::RestoreOrder& unseen, internal::WhereToLook where,
                                  const CheckpointParts& parts);
  std::optional<State> LoadByOrder(const internal::RestoreOrder& order, internal::WhereToLook where,
                                   const CheckpointParts& parts);
};

Checkpointer::Checkpointer(const Context& ctx, std::string directory,
                           const CheckpointerOptions& options) {
  const auto check = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    throw ConfigError("CheckpointerOptions::" + std::string(name) + " is " + std::to_string(value) +
                      ", it must be at least " + std::to_string(least));
  };
  check("keep_last", options.keep_last, 1);
  check("keep_every", options.keep_every, 0);
  check("save_every", options.save_every, 0);
  check("snapshot_every", options.snapshot_every, 0);
  check("snapshot_interval", options.snapshot_interval.count(), 0);
  if (directory.empty() && options.save_every > 0) {
    throw ConfigError("Checkpointer: save_every needs a directory, and it is empty");
  }
  impl_ = std::make_unique<Impl>(ctx, std::move(directory), options);
}

Checkpointer::~Checkpointer() {
  const bool well =
      std::uncaught_exceptions() <= impl_->run.exceptions_at_start && !internal::GroupIsLost();
  if (well && impl_->ctx.rank() == 0) impl_->writer.Release();
  if (well || !impl_->live) return;
  if (auto state = impl_->live->Take()) {
    internal::MakeEndSnapshot(*std::move(state), impl_->ctx.rank(), &impl_->turn,
                              &impl_->snapshots);
  }
}

std::string Checkpointer::save(const State& state, torch::nn::Module& module,
                               torch::optim::Optimizer& optimizer) {
  return save(state, CheckpointParts(module, optimizer));
}

std::string Checkpointer::save(const State& state, const CheckpointParts& parts) {
  return impl_->Save(state, parts, impl_->options.when_busy);
}

std::string Checkpointer::Impl::Save(const State& state, const CheckpointParts& parts,
                                     WhenBusy when_busy) {
  if (directory.empty()) throw ConfigError("Checkpointer: the directory is empty");
  if (options.read_only) throw ConfigError("Checkpointer: it is read_only, and saves nothing");
  const internal::Progress::Scope phase(ddprun::ProgressPhase::kCheckpoint);
  Claim();
  Metadata metadata;
  std::optional<StateImage> image;  // on rank 0, unless the save is skipped
  Together(ctx, "checkpoint of step " + std::to_string(state.step) + ": ", [&] {
    metadata = TextsOf(state, parts);  // on all ranks: it may be a collective
    if (ctx.rank() == 0 && Ready(when_busy)) image.emplace(internal::TensorsOf(parts));
  });
  AddGenerators(&metadata);
  const std::int64_t skipped_before = known.skipped;
  known = Share(ctx, writer.status());
  if (known.skipped > skipped_before) return "";
  known.writing = true;
  if (image) Begin(state.step, *image, std::move(metadata));
  return directory + "/" + internal::CheckpointName(state.step);
}

void Checkpointer::step(const State& state, const CheckpointParts& parts) {
  Impl& impl = *impl_;
  impl.ctx.report_step(state.step);
  if (impl.keeps_live()) {
    Metadata metadata = impl.TextsOf(state, parts);  // on all ranks: it may be a collective
    if (impl.live) impl.live->Finish(state.step, parts, std::move(metadata));
  }
  if (impl.share) {
    internal::SharedStep shared = impl.share->Finish(parts.module());
    if (impl.live) impl.live->Share(std::move(shared));
  }
  const auto start = Impl::Clock::now();
  if (impl.last_step) {
    impl.schedule.StepTook(start - *impl.last_step);
  } else {
    impl.BeginSteps(parts);
  }
  ++impl.steps_since_snapshot;
  const auto [save_requests, snapshot_steps, anybody_snapshots] =
      impl.agreement.Exchange(impl.Wishes());
  const bool asked = save_requests > impl.saves_done && impl.saves();
  impl.saves_done = std::max(impl.saves_done, save_requests);
  const bool due = impl.options.save_every > 0 && state.step % impl.options.save_every == 0;
  if (asked || due) impl.Save(state, parts, asked ? WhenBusy::kWait : impl.options.when_busy);
  if (anybody_snapshots != 0 && impl.steps_since_snapshot >= snapshot_steps) {
    impl.Snapshot(state, parts);
  }
  impl.last_step = Impl::Clock::now();
}

void Checkpointer::Impl::BeginSteps(const CheckpointParts& parts) {
  last_step = Clock::now();
  const char* const folder = internal::LaunchVariable(ddprun::env::kSnapshotDir);
  if (!options.snapshots || folder == nullptr || ctx.local_rank() != 0) return;
  internal::RemoveOldSetAside(folder, run.lineage.run());  // this process owns the folder
  turn.Take(std::chrono::milliseconds(0));
  internal::MakeSnapshotWriter(ctx.rank(), loaded.step, &snapshots);
  const StateImage image(internal::TensorsOf(parts));
  std::function<void()> pin;
  if (image.has_gpu_tensors()) {
    // Not within a step: pinning takes long and delays the GPU.
    pin = [this, bytes = image.bytes()] { snapshot_staging.Reserve(bytes, /*pinned=*/true); };
  }
  snapshots->Prepare(image.bytes(), std::move(pin));
}

// The values: requests to save, steps between two snapshots, and 1 if this rank makes snapshots.
internal::StepAgreement::Values Checkpointer::Impl::Wishes() const {
  constexpr std::int64_t kNotYet = std::numeric_limits<std::int64_t>::max();
  const bool makes = snapshots && snapshots->usable();
  const bool waits = makes && !snapshots->ready();
  return {internal::ControlClient::Process().SaveRequests(), waits ? kNotYet : schedule.steps(),
          makes ? 1 : 0};
}

void Checkpointer::Impl::Snapshot(const State& state, const CheckpointParts& parts) {
  const internal::Progress::Scope phase(ddprun::ProgressPhase::kCheckpoint);
  const auto start = Clock::now();
  steps_since_snapshot = 0;
  Metadata metadata = TextsOf(state, parts);
  AddGenerators(&metadata);
  if (live) live->Gathered(metadata.at("rng"));
  // The snapshots of all nodes must have the same bytes, so rank 0's buffers replace the buffers of
  // other ranks.
  std::vector<NamedTensor> tensors = internal::TensorsOf(parts);
  const std::vector<torch::Tensor> buffers = internal::BuffersAmong(parts, &tensors, ctx.rank());
  buffers_of_rank0.From(0, ctx, buffers);
  if (snapshots && snapshots->usable()) {
    const StateImage image(std::move(tensors));
    if (std::byte* const memory = snapshots->Begin(image.bytes())) {
      internal::CheckpointImage copy =
          image.has_gpu_tensors()
              ? image.CopyTo(memory, snapshot_staging.Reserve(image.bytes(), /*pinned=*/true))
              : image.CopyTo(memory);
      copy.step = state.step;
      copy.metadata = std::move(metadata);
      snapshots->Publish(std::move(copy));
    }
  }
  schedule.SnapshotTook(Clock::now() - start,
                        snapshots ? snapshots->background_time() : std::chrono::nanoseconds(0));
}

SaveStatus Checkpointer::flush() {
  const internal::Progress::Scope phase(ddprun::ProgressPhase::kCheckpoint);
  Impl& impl = *impl_;
  impl.writer.Wait();
  impl.known = Share(impl.ctx, impl.writer.status());
  return status();
}

SaveStatus Checkpointer::status() const {
  SaveStatus status = impl_->ctx.rank() == 0 ? impl_->writer.status() : impl_->known;
  if (impl_->snapshots) status.snapshot_step = impl_->snapshots->newest_step();
  return status;
}

std::optional<State> Checkpointer::load_latest(torch::nn::Module& module,
                                               torch::optim::Optimizer& optimizer) {
  return load_latest(CheckpointParts(module, optimizer));
}

// Loads the newest state that `where` selects into `parts`. nullopt: no such state.
std::optional<State> Checkpointer::Impl::Load(const internal::WhereToLook& where,
                                              const CheckpointParts& parts) {
  internal::StateSearch search(ctx, where);
  while (std::optional<FoundState> found = search.Next()) {
    State state;
    internal::RestorePlan plan;
    std::vector<StatePart> destinations;
    Together(ctx, "a checkpoint does not fit this program: ", [&] {
      state = internal::StateOf(*found);
      std::vector<TensorInfo> infos;
      for (const FoundState::Tensor& tensor : found->tensors) infos.push_back(tensor.info);
      try {
        plan = internal::RestorePlan(parts, infos, found->metadata);
      } catch (const CheckpointError& e) {
        throw CheckpointError(state.path + ": " + e.what() +
                              ". Give another checkpoint folder to start afresh");
      }
      const std::vector<torch::Tensor> tensors = plan.Destinations();
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const FoundState::Tensor& tensor = found->tensors[i];
        destinations.push_back({tensor.info.name, tensor.hash, tensor.bytes, tensors[i]});
      }
    });
    if (const auto fault = internal::StreamState(ctx, *found, std::move(destinations))) {
      fault->unavailable ? search.PutOff(*fault->unavailable) : search.SetAside(fault->damage);
      continue;
    }
    if (found->provisional && !search.Accept()) continue;
    plan.Finish();
    const auto generators = [&](const char* key, torch::Device device) {
      const auto text = found->metadata.find(key);
      if (text != found->metadata.end()) internal::RestoreRngState(ctx, device, text->second);
    };
    generators("rng", torch::Device(torch::kCPU));
    if (ctx.device().is_cuda()) generators("rng_cuda", ctx.device());
    if (const char* const memory = internal::LaunchVariable(ddprun::env::kSnapshotDir)) {
      internal::LiveState::RestoreGenerator(ctx, memory, state.step, found->metadata);
    }
    if (live) live->Keep(state.step, found->metadata);
    if (live) live->Begin(state.step, parts, found->metadata["rng"]);
    run.lineage.Loaded(found->metadata);
    return state;
  }
  loaded.rejected.insert(loaded.rejected.end(), search.rejected().begin(), search.rejected().end());
  return std::nullopt;
}

std::optional<State> Checkpointer::Impl::LoadUnseen(const internal::RestoreOrder& unseen,
                                                    internal::WhereToLook where,
                                                    const CheckpointParts& parts) {
  where.lowest_step = where.highest_step = unseen.step;
  where.allows = [&](const Metadata& metadata) { return unseen.Allows(GetEnvironment, metadata); };
  where.source = unseen.rank;
  return Load(where, parts);
}

std::optional<State> Checkpointer::Impl::LoadByOrder(const internal::RestoreOrder& order,
                                                     internal::WhereToLook where,
                                                     const CheckpointParts& parts) {
  if (order.from_the_start) {
    // The restore plan names no state. But the launcher does not know of damaged files, or of
    // folders that cannot be listed. If there are any, training does not begin.
    where.allows = [](const Metadata&) { return false; };
    where.looks_everywhere = true;
    return Load(where, parts);
  }
  const char* const memory = internal::LaunchVariable(ddprun::env::kSnapshotDir);
  if (memory != nullptr) where.folders.insert(where.folders.begin(), memory);
  where.highest_step = order.step;
  where.allows = [&](const Metadata& metadata) { return order.Allows(GetEnvironment, metadata); };
  where.source = order.rank;
  if (internal::IsOfThisRun(GetEnvironment, order)) {
    where.folder_errors = internal::CheckpointSearch::FolderErrors::kCountInTheEnd;
  }
  std::optional<State> state = Load(where, parts);
  if (!state && where.source != 0) {
    where.source = 0;
    state = Load(where, parts);
  }
  if (!state && loaded.rejected.empty() && !internal::IsOfThisRun(GetEnvironment, order)) {
    // The state belongs to another training, which continued until this one took the folder
    // (--take-folder).
    where.highest_step = internal::WhereToLook().highest_step;
    where.allows = [](const Metadata& metadata) {
      return !internal::IsFromBefore(GetEnvironment, metadata);
    };
    state = Load(where, parts);
  }
  if (!state && loaded.rejected.empty()) loaded.rejected.push_back("its files are gone");
  if (state && ctx.rank() == 0 && state->step != order.step) {
    internal::Warn(0, "the state of step " + std::to_string(order.step) +
                          ", with which all ranks were to begin, is not usable; they begin with "
                          "step " +
                          std::to_string(state->step));
  }
  return state;
}

std::optional<State> Checkpointer::load_latest(const CheckpointParts& parts) {
  Impl& impl = *impl_;
  const Context& ctx = impl.ctx;
  ctx.report_phase(ddprun::control::kPhaseRestore);
  impl.writer.Wait();
  impl.Claim();
  impl.loaded.rejected.clear();
  internal::WhereToLook where;
  if (!impl.directory.empty()) where.folders = {impl.directory};
  where.patience = internal::StateTimeout(GetEnvironment);
  where.damaged = {!impl.options.read_only, impl.run.lineage.run()};
  const bool first = !std::exchange(impl.loaded.followed_order, true);
  const bool anew = internal::BeginsAnew(GetEnvironment);
  const auto order =
      first ? internal::ReadRestoreOrder(GetEnvironment, ctx.world_size()) : std::nullopt;
  const auto unseen = first ? internal::ReadUnseen(GetEnvironment, ctx.world_size()) : std::nullopt;
  std::optional<State> state;
  if (unseen) state = impl.LoadUnseen(*unseen, where, parts);
  if (state) {
    // newer than the state of the order
  } else if (order && !(anew && order->from_the_start)) {
    state = impl.LoadByOrder(*order, where, parts);
  } else if (order && internal::IsRequeued(GetEnvironment)) {
    // A folder that cannot be listed may hold this job's own files.
    where.highest_step = -1;
    state = impl.Load(where, parts);
  } else if (!order && !(anew && first)) {
    if (anew) {  // only states that this process wrote or loaded
      where.allows = [&impl](const Metadata& metadata) {
        const std::int64_t step = std::stoll(metadata.at("step"));
        return impl.writer.HasSaved(step) || step == impl.loaded.step;
      };
    }
    where.looks_everywhere = !anew;
    where.counts_whole_files = first;  // later, an agent may have reported such a file
    state = impl.Load(where, parts);
  }
  if (!state && !impl.loaded.rejected.empty()) {
    internal::RefuseToBeginAnew(order, impl.loaded.rejected, ctx.rank());
  }
  if (state) impl.loaded.step = state->step;
  if (!state && impl.keeps_live()) {
    // Until the first snapshot, a node gets the generators of other nodes' ranks only here.
    const std::string generators = internal::GatherRngStates(ctx, torch::Device(torch::kCPU));
    if (impl.live) impl.live->Begin(0, parts, generators);
  }
  if (impl.share) impl.share->Begin(parts.module());
  ctx.report_phase(ddprun::control::kPhaseFirstStep);
  return state;
}

}  // namespace ddp
