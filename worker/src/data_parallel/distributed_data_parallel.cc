#include <c10/core/GradMode.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/errors.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "worker/contract/control.h"
#include "worker/src/agent/progress.h"
#include "worker/src/compat/compat.h"
#include "worker/src/data_parallel/gradient_reducer_state.h"
#include "worker/src/data_parallel/model_sync.h"
#include "worker/src/data_parallel/output_sink.h"
#include "worker/src/group/failure.h"
#include "worker/src/group/gradient_buckets.h"
#include "worker/src/peers/activity.h"

namespace ddp::detail {

using internal::NamedTensor;

namespace {

using Buckets = std::vector<std::vector<std::size_t>>;

std::vector<torch::Tensor> Tensors(const std::vector<NamedTensor>& named) {
  std::vector<torch::Tensor> tensors;
  for (const NamedTensor& item : named) tensors.push_back(item.tensor);
  return tensors;
}

double BucketCapMb(const DataParallelOptions& options) {
  return options.bucket_cap_mb.value_or(25);
}

std::int64_t BucketBytes(const DataParallelOptions& options) {
  return static_cast<std::int64_t>(BucketCapMb(options) * 1024 * 1024);
}

std::int64_t FirstBucketBytes(const DataParallelOptions& options) {
  if (options.first_bucket_bytes) return *options.first_bucket_bytes;
  const bool as_the_others = compat::kNewerPythonClass && options.bucket_cap_mb;
  return as_the_others ? BucketBytes(options) : std::int64_t{1} << 20;
}

void CheckOptions(const DataParallelOptions& options) {
  if (!(BucketCapMb(options) <= 1e6) || BucketBytes(options) < 1 || FirstBucketBytes(options) < 1) {
    throw ConfigError(
        "DataParallelOptions: bucket_cap_mb and first_bucket_bytes must be at least 1 byte, and "
        "bucket_cap_mb at most 1000000");
  }
  if (options.statistics_sample_rate < 1) {
    throw ConfigError("DataParallelOptions: statistics_sample_rate must be at least 1");
  }
  if (options.straggler_every < 0) {
    throw ConfigError("DataParallelOptions: straggler_every must be at least 0");
  }
}

// The same buckets as in PyTorch's DDP (_ddp_init_helper), so that the sums of three and more ranks
// are equal to the last bit. The buckets have the reverse order of the parameters, which is roughly
// the order in which backward fills them. If the Reducer rebuilds the buckets after the first step,
// there is only one bucket in the first step.
std::shared_ptr<compat::Reducer> MakeReducer(const Context& ctx,
                                             const std::vector<NamedTensor>& parameters,
                                             const DataParallelOptions& options) {
  compat::ReducerArguments arguments;
  arguments.parameters = Tensors(parameters);
  for (const NamedTensor& p : parameters) arguments.sparse.push_back(p.sparse_gradient);
  std::vector<std::size_t> limits = {
      static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())};
  if (options.find_unused_parameters && !options.static_graph) {
    limits = {static_cast<std::size_t>(FirstBucketBytes(options)),
              static_cast<std::size_t>(BucketBytes(options))};
  }
  std::tie(arguments.buckets, arguments.bucket_limits) =
      c10d::compute_bucket_assignment_by_size(arguments.parameters, limits, arguments.sparse);
  std::reverse(arguments.buckets.begin(), arguments.buckets.end());
  std::reverse(arguments.bucket_limits.begin(), arguments.bucket_limits.end());
  arguments.group = ctx.process_group();
  arguments.first_bucket_bytes = FirstBucketBytes(options);
  arguments.bucket_bytes = BucketBytes(options);
  arguments.find_unused_parameters = options.find_unused_parameters;
  arguments.gradient_as_bucket_view = options.gradient_as_bucket_view;
  for (std::size_t i = 0; i < parameters.size(); ++i) arguments.names[i] = parameters[i].name;
  return compat::MakeReducer<compat::Reducer>(std::move(arguments));
}

std::shared_ptr<c10d::Logger> MakeLogger(const std::shared_ptr<c10d::Reducer>& reducer,
                                         const std::string& module_name,
                                         const DataParallelOptions& options) {
  auto logger = std::make_shared<c10d::Logger>(reducer);
  reducer->set_logger(logger);
  reducer->set_ddp_runtime_logging_sample_rate(options.statistics_sample_rate);
  logger->set_construction_data_and_log(module_name, /*device_ids=*/{}, /*output_device=*/-1,
                                        options.broadcast_buffers, /*has_sync_bn=*/false,
                                        options.static_graph);
  return logger;
}

// The limits of bucket sizes, as text. A bucket order is used only with the same limits.
std::string BucketLimits(const DataParallelOptions& options) {
  return std::to_string(FirstBucketBytes(options)) + "," + std::to_string(BucketBytes(options));
}

// nullopt: `text` is not a list of buckets.
std::optional<Buckets> ParseBuckets(const std::string& text) {
  Buckets buckets;
  std::istringstream lists(text);
  for (std::string list; std::getline(lists, list, ';');) {
    std::istringstream numbers(list);
    buckets.emplace_back();
    for (std::string number; std::getline(numbers, number, ',');) {
      const auto value = ddprun::control::ParseNumber(number);
      if (!value) return std::nullopt;
      buckets.back().push_back(static_cast<std::size_t>(*value));
    }
  }
  return buckets;
}

// True if each parameter is in one bucket, with parameters of the same dtype and device. A
// parameter with a sparse gradient must be alone in its bucket.
bool Fits(const Buckets& buckets, const std::vector<NamedTensor>& parameters) {
  std::vector<bool> seen(parameters.size(), false);
  std::size_t count = 0;
  for (const std::vector<std::size_t>& bucket : buckets) {
    if (bucket.empty()) return false;
    for (const std::size_t index : bucket) {
      if (index >= parameters.size() || seen[index]) return false;
      seen[index] = true;
      ++count;
      const torch::Tensor& first = parameters[bucket.front()].tensor;
      const torch::Tensor& tensor = parameters[index].tensor;
      if (tensor.scalar_type() != first.scalar_type() || tensor.device() != first.device()) {
        return false;
      }
      if (parameters[index].sparse_gradient && bucket.size() > 1) return false;
    }
  }
  return count == parameters.size();
}

}  // namespace

// Called for each gradient, before the Reducer sees it. The engine runs callbacks in the order in
// which they were queued. When the last gradient is ready, the Reducer queues its own callback,
// which waits for the all-reduces. The first gradient queues a callback that runs before the
// Reducer's. This callback queues NoteBackwardsEnd(), which therefore runs after the Reducer's. If
// several backwards follow one forward, the last backward reduces.
void GradientReducer::State::NoteGradient(std::size_t parameter) {
  internal::ThrowIfLeaving();
  if (stragglers != nullptr && in_first_bucket[parameter]) stragglers->clock().FirstBucketReady();
  if (!awaits_gradient.load(std::memory_order_relaxed) || !awaits_gradient.exchange(false)) return;
  internal::EnterBackward();
  torch::autograd::Engine::get_default_engine().queue_callback([this] {
    torch::autograd::Engine::get_default_engine().queue_callback([this] { NoteBackwardsEnd(); });
  });
}

void GradientReducer::State::NoteBackwardsEnd() {
  if (!reducer->HasReducedAll()) {
    awaits_gradient = true;
    return;
  }
  internal::LeaveBackward();
  std::fill(in_first_bucket.begin(), in_first_bucket.end(), false);
  if (stragglers == nullptr) return;
  if (join) {
    stragglers->UncountedStepEnded();
  } else {
    stragglers->StepEnded();
  }
}

void GradientReducer::State::PublishBuckets() {
  std::vector<const void*> memory;
  for (const torch::Tensor& gradients : reducer->BucketGradients()) {
    memory.push_back(internal::MemoryOf(gradients));
  }
  internal::GradientBuckets::Process().Set(this, std::move(memory));
}

// From now on gradients of the first bucket are measured.
void GradientReducer::State::AwaitGradients() {
  awaits_gradient = true;
  PublishBuckets();
  if (stragglers == nullptr) return;
  if (first_bucket != reducer->FirstBucket()) first_bucket = reducer->FirstBucket();
  for (const std::size_t parameter : first_bucket) in_first_bucket[parameter] = true;
}

GradientReducer::GradientReducer(const Context& ctx, const torch::nn::Module& module,
                                 const DataParallelOptions& options)
    : state_(std::make_unique<State>()) {
  CheckOptions(options);
  std::vector<NamedTensor> parameters = internal::Unique(internal::Parameters(module));
  const std::vector<NamedTensor> buffers = internal::Unique(internal::Buffers(module));
  internal::CheckSameModel(ctx, parameters, buffers);
  state_->ctx = &ctx;
  state_->options = options;
  state_->parameters = Tensors(parameters);
  state_->buffers = Tensors(buffers);

  send_all_from(0);

  parameters.erase(std::remove_if(parameters.begin(), parameters.end(),
                                  [](const NamedTensor& p) { return !p.tensor.requires_grad(); }),
                   parameters.end());
  if (parameters.empty()) {
    throw ConfigError(
        "DistributedDataParallel: no parameter of the module requires a gradient, so there is "
        "nothing to average; use the module as it is");
  }
  state_->reducer = MakeReducer(ctx, parameters, options);
  if (options.static_graph) state_->reducer->set_static_graph();
  state_->logger = MakeLogger(state_->reducer, module.name(), options);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& tensor = parameters[i].tensor;
    state_->hooks.emplace_back(
        tensor, tensor.register_hook(
                    [state = state_.get(), i](const torch::Tensor&) { state->NoteGradient(i); }));
  }
  state_->in_first_bucket.resize(parameters.size());
  if (ctx.world_size() > 1) {
    state_->stragglers =
        std::make_unique<internal::StragglerSummaries>(ctx, options.straggler_every);
  }
  state_->reduced = std::move(parameters);
}

GradientReducer::~GradientReducer() {
  for (auto& [parameter, hook] : state_->hooks) parameter.remove_hook(hook);
  internal::GradientBuckets::Process().Remove(state_.get());
}

// The order of the steps follows DistributedDataParallel.forward in PyTorch
// (torch/nn/parallel/distributed.py).
void GradientReducer::before_forward() {
  State& state = *state_;
  const bool gradients = c10::GradMode::is_enabled();
  internal::ThrowIfLeaving();
  internal::ThrowIfGroupIsLost();
  internal::Progress::Process().DataIsThere();
  if (gradients && state.synchronize) {
    // The same condition as in the logger, which does not say how many steps its means cover.
    if (state.steps > 0 &&
        (state.steps <= 10 || state.steps % state.options.statistics_sample_rate == 0)) {
      ++state.measured_steps;
    }
    state.logger->set_runtime_stats_and_log();
    ++state.steps;
    internal::EnterForward(state.steps);
    state.reducer->prepare_for_forward();
  }
  if (state.join) tell_joined();
  // In join(), a rank that has no more data cannot know whether gradients follow.
  if (gradients || state.join) state.reducer->rebuild_buckets();
  const bool will_sync = state.buffers_changed && state.options.broadcast_buffers;
  if (state.join) {
    if (will_sync) sync_buffers_from(highest_rank(true));
    tell_whether_gradients_follow();
  } else if (will_sync) {
    if (state.stragglers != nullptr) state.stragglers->clock().BroadcastBegins();
    sync_buffers();
    if (state.stragglers != nullptr) state.stragglers->clock().BroadcastEnded();
  }
}

void GradientReducer::after_forward(const Outputs& outputs) {
  State& state = *state_;
  const bool gradients = c10::GradMode::is_enabled();
  // Repeated in each forward until a backward follows, because the program may ignore a result.
  const bool first_static_step =
      state.options.static_graph && state.synchronize && !state.reducer->StaticGraphHasBegun();
  const bool search = state.SearchesInEachStep();
  std::vector<torch::Tensor> found;
  if (gradients && (search || first_static_step)) {
    outputs([&](torch::Tensor& tensor) { found.push_back(tensor); });
  }
  state.buffers_changed = gradients && state.synchronize;
  if (state.buffers_changed) {
    internal::LeaveForward();
    state.AwaitGradients();
    state.reducer->prepare_for_backward(search ? found : std::vector<torch::Tensor>());
  }
  if (found.empty()) return;

  std::function<void()> on_backward;
  if (first_static_step) {
    on_backward = [weak = std::weak_ptr<compat::Reducer>(state.reducer)] {
      const auto reducer = weak.lock();
      if (reducer == nullptr || !reducer->BeginStaticGraph()) return;
      reducer->ForgetEarlierBackwards();
      torch::autograd::Engine::get_default_engine().queue_callback([weak] {
        if (const auto reducer = weak.lock()) reducer->delay_all_reduce();
      });
    };
  }
  internal::PassThroughSink(&found, on_backward);
  std::size_t next = 0;
  outputs([&](torch::Tensor& tensor) { tensor = found[next++]; });
}

void GradientReducer::send_all_from(int root) {
  std::vector<torch::Tensor> everything = state_->parameters;
  if (state_->options.broadcast_buffers || !compat::kNewerPythonClass) {
    everything.insert(everything.end(), state_->buffers.begin(), state_->buffers.end());
  }
  internal::BroadcastFrom(root, *state_->ctx, everything);
}

void GradientReducer::sync_buffers() { sync_buffers_from(0); }

void GradientReducer::sync_buffers_from(int root) {
  // variable_data() shares the memory but not autograd's version counter. So two forwards may share
  // one backward: BatchNorm saves its statistics for backward, but backward reads them only in
  // evaluation mode. This hides no real change: rank 0 sends the values of the last broadcast plus
  // later changes. The program makes such changes on every rank, and there they update the counter.
  std::vector<torch::Tensor> data;
  for (const torch::Tensor& buffer : state_->buffers) data.push_back(buffer.variable_data());
  state_->broadcast_of_buffers.From(root, *state_->ctx, data);
}

void GradientReducer::zero_grad(bool set_to_none) {
  for (torch::Tensor& parameter : state_->parameters) {
    torch::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (set_to_none) {
      gradient.reset();
    } else {
      gradient.detach().zero_();  // not detach_(), which throws for views into a bucket
    }
  }
}

const std::vector<torch::Tensor>& GradientReducer::parameters() const { return state_->parameters; }

namespace {

class UserHook final : public c10d::CommHookInterface {
 public:
  explicit UserHook(CommHook hook) : hook_(std::move(hook)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    internal::ThrowIfGroupIsLost();
    const internal::InBucket here(static_cast<std::uint32_t>(bucket.getIndex()));
    return hook_(bucket);
  }
  torch::Tensor parseHookResult(const c10::IValue& result) override {
    return result.isTensor() ? result.toTensor() : result.toTensorVector().at(0);
  }

 private:
  const CommHook hook_;
};

}  // namespace

void GradientReducer::register_comm_hook(CommHook hook) {
  if (state_->has_comm_hook) {
    throw ConfigError("DistributedDataParallel: it has a communication hook already");
  }
  state_->reducer->register_comm_hook(std::make_unique<UserHook>(std::move(hook)));
  state_->has_comm_hook = true;
}

bool* GradientReducer::synchronize() { return &state_->synchronize; }

DataParallelStatistics GradientReducer::statistics() const {
  const auto numbers = state_->logger->get_ddp_logging_data().ints_map;
  const auto number = [&](const char* name) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? std::int64_t{0} : std::int64_t{found->second};
  };
  DataParallelStatistics result;
  result.steps = state_->steps;
  result.measured_steps = state_->measured_steps;
  result.forward = std::chrono::nanoseconds(number("avg_forward_compute_time"));
  result.backward_compute = std::chrono::nanoseconds(number("avg_backward_compute_time"));
  result.communication = std::chrono::nanoseconds(number("avg_backward_comm_time"));
  result.overlap = std::chrono::nanoseconds(number("avg_backward_compute_comm_overlap_time"));
  result.buckets_rebuilt = number("has_rebuilt_buckets") != 0;
  result.bucket_bytes = bucket_sizes();
  return result;
}

const StragglerSummary& GradientReducer::stragglers() const {
  static const StragglerSummary none;
  return state_->stragglers == nullptr ? none : state_->stragglers->newest();
}

std::vector<std::size_t> GradientReducer::bucket_sizes() const {
  std::vector<std::size_t> sizes;
  for (const c10d::GradBucket& bucket : state_->reducer->get_grad_buckets(false)) {
    std::size_t bytes = 0;  // not the size of the buffer: a sparse bucket has none
    for (const torch::Tensor& parameter : bucket.getParameters()) bytes += parameter.nbytes();
    sizes.push_back(bytes);
  }
  return sizes;
}

std::string GradientReducer::bucket_order() {
  compat::Reducer& reducer = *state_->reducer;
  reducer.rebuild_buckets();
  if (!reducer.HasRebuiltBuckets()) return "";
  std::string text = BucketLimits(state_->options);
  char separator = ':';
  for (const std::vector<std::size_t>& bucket : reducer.Buckets()) {
    for (const std::size_t index : bucket) {
      text += separator + std::to_string(index);
      separator = ',';
    }
    separator = ';';
  }
  return text;
}

void GradientReducer::set_bucket_order(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || text.substr(0, colon) != BucketLimits(state_->options)) return;
  std::optional<Buckets> buckets = ParseBuckets(text.substr(colon + 1));
  if (!buckets || !Fits(*buckets, state_->reduced)) return;
  if (!state_->reducer->should_rebuild_buckets()) return;
  state_->reducer->UseRebuiltBuckets(std::move(*buckets));
}

}  // namespace ddp::detail
