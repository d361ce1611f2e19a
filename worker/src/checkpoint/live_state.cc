#include "worker/src/checkpoint/live_state.h"

#include <ddp/errors.h>

#include <cstring>
#include <string>
#include <utility>

#include "worker/contract/checkpoint_file.h"
#include "worker/contract/control.h"
#include "worker/src/agent/control_client.h"
#include "worker/src/agent/parameter_watch.h"
#include "worker/src/group/gradient_buckets.h"
#include "worker/src/state/rng_state.h"
#include "worker/src/state/training_state.h"
#include "worker/src/storage/checkpoint_folder.h"
#include "worker/src/storage/own_state.h"

namespace ddp::internal {
namespace {

constexpr char kGenerators[] = "rng";
constexpr char kMadeAtTheEnd[] = "ddprun_left";  // "1"

std::string BytesOf(const std::vector<torch::Tensor>& tensors) {
  std::string bytes;
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor dense = tensor.detach().contiguous();
    bytes.append(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
  }
  return bytes;
}

// The generation that made a state with this metadata, and the step. nullopt: the metadata does not
// name a generation.
std::optional<StampedStep> StampOf(std::int64_t step, const Metadata& metadata) {
  const auto found = metadata.find(ddprun::checkpoint_file::kGeneration);
  if (found == metadata.end()) return std::nullopt;
  const auto generation = ddprun::control::ParseNumber(found->second);
  return generation ? std::optional(StampedStep{*generation, step}) : std::nullopt;
}

}  // namespace

bool LiveState::IsFor(const Context& ctx) {
  return ctx.device().is_cpu() && ControlClient::Process().stays();
}

LiveState::LiveState(const Context& ctx, std::string folder)
    : ctx_(ctx), folder_(std::move(folder)), slots_(folder_, ctx.rank()) {
  ParameterWatch::Process().Forget();
  GradientBuckets::Process().OnAverage([this] { PutOwnState(); });
}

LiveState::~LiveState() { GradientBuckets::Process().OnAverage(nullptr); }

void LiveState::Keep(std::int64_t step, const Metadata& metadata) {
  if (const auto state = StampOf(step, metadata)) Write([&] { slots_.Keep(*state); });
}

void LiveState::Begin(std::int64_t step, const CheckpointParts& parts, std::string generators) {
  step_ = step;
  finished_ = false;
  shared_.reset();
  generators_ = std::move(generators);
  own_buffers_.clear();
  for (const NamedTensor& buffer : Buffers(parts.module())) own_buffers_.push_back(buffer.tensor);
}

void LiveState::Finish(std::int64_t step, const CheckpointParts& parts, Metadata metadata) {
  step_ = step;
  finished_ = true;
  shared_.reset();
  tensors_ = TensorsOf(parts);
  first_buffer_ = Parameters(parts.module()).size();
  own_buffers_.clear();
  for (const NamedTensor& buffer : Buffers(parts.module())) own_buffers_.push_back(buffer.tensor);
  metadata_ = std::move(metadata);
  ParameterWatch::Process().StepIsFinished();
}

void LiveState::PutOwnState() {
  Write([this] {
    slots_.Put({ctx_.generation(), step_ + 1},
               OwnState{OwnRngState(), BytesOf(own_buffers_)}.Packed());
  });
}

void LiveState::Write(const std::function<void()>& write) {
  if (!usable_) return;
  try {
    write();
  } catch (const CheckpointError& e) {
    usable_ = false;
    Warn(ctx_.rank(),
         std::string("a restart will lose the steps after the last snapshot: ") + e.what());
  }
}

std::optional<LiveState::State> LiveState::Take() const {
  if (!usable_ || !finished_ || !ParameterWatch::Process().whole()) return std::nullopt;
  State state{step_, tensors_, metadata_};
  std::optional<std::string> generators = AllGenerators(step_);
  if (!generators || !TakeBuffers(step_, &state.tensors)) return std::nullopt;
  state.metadata[kGenerators] = *std::move(generators);
  state.metadata[kMadeAtTheEnd] = "1";
  return state;
}

std::optional<std::string> LiveState::AllGenerators(std::int64_t step) const {
  if (shared_) return RngText(shared_->generators);
  const auto left = [&](int rank) {
    const RankSlots::View slots(folder_, rank);
    const auto own = OwnState::Unpack(slots.Find({ctx_.generation(), step}));
    return LeftGenerator{own ? std::optional(RngText(own->generator)) : std::nullopt,
                         slots.HasAnyOf(ctx_.generation())};
  };
  const auto older = [&](int rank) { return RngStateOf(generators_, rank); };
  const auto generators = GeneratorsAtStep(ctx_.world_size(), left, older);
  if (!generators) return std::nullopt;
  std::string all;
  for (const std::string& one : *generators) all += (all.empty() ? "" : ",") + one;
  return all;
}

// Takes the buffers of rank 0, because every snapshot contains them.
bool LiveState::TakeBuffers(std::int64_t step, std::vector<NamedTensor>* tensors) const {
  if (own_buffers_.empty()) return true;
  if (shared_) {
    if (shared_->buffers.size() != own_buffers_.size()) return false;  // of another module
    for (std::size_t i = 0; i < shared_->buffers.size(); ++i) {
      (*tensors)[first_buffer_ + i].tensor = shared_->buffers[i];
    }
    return true;
  }
  const auto own = OwnState::Unpack(RankSlots::View(folder_, 0).Find({ctx_.generation(), step}));
  if (!own) return false;
  std::size_t at = 0;
  for (std::size_t i = 0; i < own_buffers_.size(); ++i) {
    torch::Tensor& tensor = (*tensors)[first_buffer_ + i].tensor;
    tensor = torch::empty(tensor.sizes(), tensor.options());
    if (at + tensor.nbytes() > own->buffers.size()) return false;
    std::memcpy(tensor.data_ptr(), own->buffers.data() + at, tensor.nbytes());
    at += tensor.nbytes();
  }
  return at == own->buffers.size();
}

void LiveState::RestoreGenerator(const Context& ctx, const std::string& folder, std::int64_t step,
                                 const Metadata& metadata) {
  const auto state = StampOf(step, metadata);
  if (metadata.count(kMadeAtTheEnd) == 0 || !state) return;
  const auto own = OwnState::Unpack(RankSlots::View(folder, ctx.rank()).Find(*state));
  if (own) SetOwnRngState(own->generator);
}

}  // namespace ddp::internal
