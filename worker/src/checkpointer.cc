#include <ddp/checkpointer.h>
#include <ddp/collectives.h>
#include <ddp/errors.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/checkpoint_folder.h"
#include "worker/src/checkpoint_writer.h"
#include "worker/src/failure.h"
#include "worker/src/rng_state.h"
#include "worker/src/safetensors.h"
#include "worker/src/staging_buffer.h"
#include "worker/src/state_image.h"
#include "worker/src/training_state.h"

namespace ddp {
namespace {

using internal::Metadata;
using internal::SafetensorsFile;
using internal::StateImage;
using internal::TensorBytes;
using internal::TensorInfo;
using internal::TensorMap;
using nlohmann::json;

// What the other ranks must know of the file, as text.
std::string Summarize(const SafetensorsFile* file, const std::string& path) {
  if (file == nullptr) return "";
  json tensors = json::array();
  for (const TensorBytes& tensor : file->tensors()) {
    tensors.push_back({tensor.info.name, tensor.info.dtype, tensor.info.shape});
  }
  return json{{"path", path}, {"metadata", file->metadata()}, {"tensors", tensors}}.dump();
}

// The tensors of a file on this rank: rank 0's have the file's values, the others' are empty.
TensorMap MakeTensors(const json& summary, const SafetensorsFile* file) {
  TensorMap result;
  for (std::size_t i = 0; i < summary["tensors"].size(); ++i) {
    const json& entry = summary["tensors"][i];
    const TensorInfo info{entry[0], entry[1], entry[2]};
    if (file == nullptr) {
      result[info.name] = torch::empty(info.shape, internal::DtypeOf(info));
    } else {
      // Only read from: the mapping is read-only.
      void* const data = const_cast<void*>(file->tensors()[i].data);
      result[info.name] = torch::from_blob(data, info.shape, internal::DtypeOf(info));
    }
  }
  return result;
}

State StateOf(const json& summary) {
  const auto metadata = summary["metadata"].get<Metadata>();
  State state;
  state.step = std::stoll(metadata.at("step"));
  state.epoch = std::stoll(metadata.at("epoch"));
  state.batch = std::stoll(metadata.at("batch"));
  state.world_size = std::stoi(metadata.at("world_size"));
  state.user = json::parse(metadata.at("user")).get<std::map<std::string, std::string>>();
  state.path = summary["path"];
  return state;
}

void AddPlace(const Context& ctx, const State& state, Metadata* metadata) {
  if (state.step < 0) throw CheckpointError("a step cannot be negative");
  (*metadata)["epoch"] = std::to_string(state.epoch);
  (*metadata)["batch"] = std::to_string(state.batch);
  (*metadata)["world_size"] = std::to_string(ctx.world_size());
  (*metadata)["user"] = json(state.user).dump();  // throws for what is not UTF-8
}

// Rank 0's status on every rank. A collective.
SaveStatus Share(const Context& ctx, const SaveStatus& s) {
  const json mine = {s.saved,        s.failed,       s.skipped, s.writing,
                     s.durable_step, s.durable_path, s.error};
  const std::string text = mine.dump(-1, ' ', false, json::error_handler_t::replace);
  const json j = json::parse(broadcast(ctx, text));
  return {j[0], j[1], j[2], j[3], j[4], j[5], j[6]};
}

// Calls `action`; whatever it throws becomes AgreedError on all ranks. A collective.
template <typename Action>
void Together(const Context& ctx, const std::string& what, const Action& action) {
  std::string problem;
  try {
    action();
  } catch (const CollectiveError&) {
    throw;  // the others cannot be asked any more
  } catch (const std::exception& e) {
    problem = what + internal::TextOf(e);
  }
  throw_if_any_failed(ctx, problem);
}

}  // namespace

struct Checkpointer::Impl {
  // Constant after construction.
  const Context& ctx;  // the user's; outlives this
  const std::string directory;
  const CheckpointerOptions options;

  SaveStatus known;  // what rank 0 said last

  // Rank 0's. The writer reads from the buffer, so it must end first.
  internal::StagingBuffer staging;
  internal::CheckpointWriter writer;

  Impl(const Context& context, std::string folder, const CheckpointerOptions& given)
      : ctx(context),
        directory(std::move(folder)),
        options(given),
        writer(directory, {given.keep_last, given.keep_every},
               {[this](std::int64_t step, const std::string& path) {
                  ctx.report_checkpoint(step, path);
                },
                [this](std::int64_t step, std::int64_t failures, const std::string& reason) {
                  ctx.report_checkpoint_failed(step, failures, reason);
                }}) {}

  // Whether there is to be a checkpoint now.
  bool Ready() {
    if (options.when_busy == WhenBusy::kSkip && writer.busy()) {
      writer.CountSkipped();
      return false;
    }
    writer.Wait();
    return true;
  }

  void Begin(std::int64_t step, const StateImage& image, Metadata metadata) {
    try {
      std::byte* const memory = staging.Reserve(image.bytes(), image.has_gpu_tensors());
      writer.Start({step, image.CopyTo(memory), std::move(metadata)});
    } catch (const std::exception& e) {
      writer.Fail(step, internal::TextOf(e));
    }
  }
};

Checkpointer::Checkpointer(const Context& ctx, std::string directory,
                           const CheckpointerOptions& options) {
  if (directory.empty()) throw ConfigError("Checkpointer: the directory is empty");
  if (options.keep_last < 1) {
    throw ConfigError("CheckpointerOptions::keep_last is " + std::to_string(options.keep_last) +
                      ", it must be at least 1");
  }
  if (options.keep_every < 0) {
    throw ConfigError("CheckpointerOptions::keep_every is " + std::to_string(options.keep_every) +
                      ", it must be 0 or more");
  }
  impl_ = std::make_unique<Impl>(ctx, std::move(directory), options);
}

Checkpointer::~Checkpointer() = default;

std::string Checkpointer::save(const State& state, torch::nn::Module& module,
                               torch::optim::Optimizer& optimizer) {
  return save(state, CheckpointParts(module, optimizer));
}

std::string Checkpointer::save(const State& state, const CheckpointParts& parts) {
  Impl& impl = *impl_;
  const Context& ctx = impl.ctx;
  Metadata metadata;
  std::optional<StateImage> image;  // rank 0's, unless the save is skipped
  Together(ctx, "checkpoint of step " + std::to_string(state.step) + ": ", [&] {
    metadata = internal::TextsOf(parts);  // on all ranks: it may be a collective
    AddPlace(ctx, state, &metadata);
    if (ctx.rank() == 0 && impl.Ready()) image.emplace(internal::TensorsOf(parts));
  });
  metadata["rng"] = internal::GatherRngStates(ctx, torch::Device(torch::kCPU));
  if (ctx.device().is_cuda()) metadata["rng_cuda"] = internal::GatherRngStates(ctx, ctx.device());
  const std::int64_t skipped_before = impl.known.skipped;
  impl.known = Share(ctx, impl.writer.status());
  if (impl.known.skipped > skipped_before) return "";
  impl.known.writing = true;
  if (image) impl.Begin(state.step, *image, std::move(metadata));
  return impl.directory + "/" + internal::CheckpointName(state.step);
}

SaveStatus Checkpointer::flush() {
  Impl& impl = *impl_;
  impl.writer.Wait();
  impl.known = Share(impl.ctx, impl.writer.status());
  return impl.known;
}

SaveStatus Checkpointer::status() const {
  return impl_->ctx.rank() == 0 ? impl_->writer.status() : impl_->known;
}

std::optional<State> Checkpointer::load_latest(torch::nn::Module& module,
                                               torch::optim::Optimizer& optimizer) {
  return load_latest(CheckpointParts(module, optimizer));
}

std::optional<State> Checkpointer::load_latest(const CheckpointParts& parts) {
  const Context& ctx = impl_->ctx;
  std::unique_ptr<SafetensorsFile> file;
  std::string text;
  Together(ctx, "", [&] {
    if (ctx.rank() != 0) return;
    impl_->writer.Wait();
    std::string path;
    file = internal::OpenNewestCheckpoint(impl_->directory, &path);
    text = Summarize(file.get(), path);
  });
  text = broadcast(ctx, text);
  if (text.empty()) return std::nullopt;

  State state;
  json summary;
  TensorMap tensors;
  internal::RestorePlan plan;
  Together(ctx, "a checkpoint does not fit this program: ", [&] {
    summary = json::parse(text);
    state = StateOf(summary);
    try {
      tensors = MakeTensors(summary, file.get());
      plan = internal::RestorePlan(parts, tensors, summary["metadata"].get<Metadata>());
    } catch (const CheckpointError& e) {
      throw CheckpointError(state.path + ": " + e.what() +
                            ". Give another checkpoint folder to start afresh");
    }
  });
  plan.Apply(ctx);
  const json& metadata = summary["metadata"];
  internal::RestoreRngState(ctx, torch::Device(torch::kCPU), metadata.value("rng", ""));
  if (ctx.device().is_cuda() && metadata.contains("rng_cuda")) {
    internal::RestoreRngState(ctx, ctx.device(), metadata["rng_cuda"]);
  }
  return state;
}

}  // namespace ddp
