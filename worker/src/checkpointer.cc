#include <ddp/checkpointer.h>
#include <ddp/collectives.h>
#include <ddp/errors.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/src/checkpoint_folder.h"
#include "worker/src/durable_file.h"
#include "worker/src/failure.h"
#include "worker/src/model_sync.h"
#include "worker/src/optimizer_state.h"
#include "worker/src/rng_state.h"
#include "worker/src/safetensors.h"

namespace ddp {
namespace {

using internal::Metadata;
using internal::NamedTensor;
using internal::SafetensorsFile;
using internal::TensorBytes;
using internal::TensorInfo;
using nlohmann::json;

constexpr char kModelPrefix[] = "model.";
constexpr char kOptimizerPrefix[] = "optim.";
constexpr char kWrapperPrefix[] = "module.";  // put there by Python's DistributedDataParallel

const std::vector<std::pair<torch::ScalarType, std::string>>& Dtypes() {
  static const auto* const kDtypes = new std::vector<std::pair<torch::ScalarType, std::string>>{
      {torch::kFloat64, "F64"},   {torch::kFloat32, "F32"}, {torch::kFloat16, "F16"},
      {torch::kBFloat16, "BF16"}, {torch::kInt64, "I64"},   {torch::kInt32, "I32"},
      {torch::kInt16, "I16"},     {torch::kInt8, "I8"},     {torch::kUInt8, "U8"},
      {torch::kBool, "BOOL"}};
  return *kDtypes;
}

std::string DtypeName(const std::string& tensor, torch::ScalarType type) {
  for (const auto& [known, name] : Dtypes()) {
    if (known == type) return name;
  }
  throw CheckpointError("tensor " + tensor +
                        " has a dtype that a checkpoint cannot hold: " + c10::toString(type));
}

torch::ScalarType DtypeOf(const TensorInfo& info) {
  for (const auto& [type, known] : Dtypes()) {
    if (known == info.dtype) return type;
  }
  throw CheckpointError("tensor " + info.name + " has unknown dtype " + info.dtype);
}

// Rank 0's save().
void WriteFile(const std::string& directory, const State& state, Metadata metadata,
               const torch::nn::Module& module, const torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> alive;  // keeps what TensorBytes points to
  std::vector<TensorBytes> tensors;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    alive.push_back(tensor.detach().cpu().contiguous());
    const torch::Tensor& kept = alive.back();
    tensors.push_back({{name, DtypeName(name, kept.scalar_type()), kept.sizes().vec()},
                       kept.data_ptr(),
                       static_cast<std::size_t>(kept.nbytes())});
  };
  for (const NamedTensor& p : internal::Parameters(module)) add(kModelPrefix + p.name, p.tensor);
  for (const NamedTensor& b : internal::Buffers(module)) add(kModelPrefix + b.name, b.tensor);
  for (const NamedTensor& s : internal::ExportOptimizerState(optimizer)) {
    add(kOptimizerPrefix + s.name, s.tensor);
  }
  metadata["step"] = std::to_string(state.step);
  metadata["epoch"] = std::to_string(state.epoch);
  metadata["batch"] = std::to_string(state.batch);
  metadata["user"] = json(state.user).dump();
  const std::string header = internal::BuildHeader(&tensors, std::move(metadata));
  std::vector<std::string_view> pieces = {header};
  for (const TensorBytes& tensor : tensors) {
    pieces.emplace_back(static_cast<const char*>(tensor.data), tensor.size);
  }
  internal::RemoveAbandonedCheckpoints(directory);  // first: they may take the space we need
  internal::WriteDurably(directory, internal::CheckpointName(state.step), pieces);
}

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
using TensorMap = std::map<std::string, torch::Tensor>;

TensorMap MakeTensors(const json& summary, const SafetensorsFile* file) {
  TensorMap result;
  for (std::size_t i = 0; i < summary["tensors"].size(); ++i) {
    const json& entry = summary["tensors"][i];
    const TensorInfo info{entry[0], entry[1], entry[2]};
    if (file == nullptr) {
      result[info.name] = torch::empty(info.shape, DtypeOf(info));
    } else {
      // Only read from: the mapping is read-only.
      void* const data = const_cast<void*>(file->tensors()[i].data);
      result[info.name] = torch::from_blob(data, info.shape, DtypeOf(info));
    }
  }
  return result;
}

// Where the values of a file go.
struct Plan {
  std::vector<std::pair<torch::Tensor, torch::Tensor>> model;  // from the file, into the module
  TensorMap optimizer;
};

// Throws CheckpointError if the file does not fit.
Plan MakePlan(const TensorMap& tensors, const torch::nn::Module& module,
              const torch::optim::Optimizer& optimizer) {
  std::map<std::string, torch::Tensor> wanted;
  for (const NamedTensor& p : internal::Parameters(module)) wanted[p.name] = p.tensor;
  for (const NamedTensor& b : internal::Buffers(module)) wanted[b.name] = b.tensor;
  Plan plan;
  for (const auto& [full_name, tensor] : tensors) {
    if (full_name.starts_with(kOptimizerPrefix)) {
      plan.optimizer[full_name.substr(sizeof(kOptimizerPrefix) - 1)] = tensor;
      continue;
    }
    if (!full_name.starts_with(kModelPrefix)) continue;
    std::string name = full_name.substr(sizeof(kModelPrefix) - 1);
    if (name.starts_with(kWrapperPrefix) && wanted.count(name) == 0) {
      name = name.substr(sizeof(kWrapperPrefix) - 1);
    }
    const auto target = wanted.find(name);
    if (target == wanted.end()) throw CheckpointError("it holds " + name + ", the model has none");
    if (internal::Describe(tensor) != internal::Describe(target->second)) {
      throw CheckpointError("it holds " + name + " as " + internal::Describe(tensor) +
                            ", the model has " + internal::Describe(target->second));
    }
    plan.model.emplace_back(tensor, target->second);
    wanted.erase(target);
  }
  if (!wanted.empty()) throw CheckpointError("it lacks " + wanted.begin()->first);
  const std::string mismatch = internal::OptimizerStateMismatch(optimizer, plan.optimizer);
  if (!mismatch.empty()) throw CheckpointError(mismatch);
  return plan;
}

void Apply(const Context& ctx, Plan plan, torch::optim::Optimizer& optimizer) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> targets;
  for (auto& [from, into] : plan.model) {
    if (ctx.rank() == 0) into.copy_(from);
    targets.push_back(into);
  }
  for (auto& [name, tensor] : plan.optimizer) {
    if (ctx.rank() == 0) tensor = tensor.clone();  // out of the mapping
    targets.push_back(tensor);
  }
  internal::BroadcastFromRank0(ctx, targets);
  internal::ImportOptimizerState(optimizer, plan.optimizer);
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

Checkpointer::Checkpointer(const Context& ctx, std::string directory,
                           const CheckpointerOptions& options)
    : ctx_(ctx), directory_(std::move(directory)), options_(options) {
  if (directory_.empty()) throw ConfigError("Checkpointer: the directory is empty");
  if (options_.keep_last < 1) {
    throw ConfigError("CheckpointerOptions::keep_last is " + std::to_string(options_.keep_last) +
                      ", it must be at least 1");
  }
}

std::string Checkpointer::save(const State& state, const torch::nn::Module& module,
                               const torch::optim::Optimizer& optimizer) {
  Metadata metadata;
  metadata["rng"] = internal::GatherRngStates(ctx_, torch::Device(torch::kCPU));
  if (ctx_.device().is_cuda()) {
    metadata["rng_cuda"] = internal::GatherRngStates(ctx_, ctx_.device());
  }
  metadata["world_size"] = std::to_string(ctx_.world_size());
  const std::string path = directory_ + "/" + internal::CheckpointName(state.step);
  Together(ctx_, "checkpoint of step " + std::to_string(state.step) + ": ", [&] {
    if (state.step < 0) throw CheckpointError("a step cannot be negative");
    if (ctx_.rank() != 0) return;
    WriteFile(directory_, state, metadata, module, optimizer);
    internal::RemoveOldCheckpoints(directory_, state.step, options_.keep_last);
  });
  if (ctx_.rank() == 0) ctx_.report_checkpoint(state.step, path);
  return path;
}

std::optional<State> Checkpointer::load_latest(torch::nn::Module& module,
                                               torch::optim::Optimizer& optimizer) {
  std::unique_ptr<SafetensorsFile> file;
  std::string text;
  Together(ctx_, "", [&] {
    if (ctx_.rank() != 0) return;
    std::string path;
    file = internal::OpenNewestCheckpoint(directory_, &path);
    text = Summarize(file.get(), path);
  });
  text = broadcast(ctx_, text);
  if (text.empty()) return std::nullopt;

  State state;
  json summary;
  Plan plan;
  Together(ctx_, "a checkpoint does not fit this program: ", [&] {
    summary = json::parse(text);
    state = StateOf(summary);
    try {
      plan = MakePlan(MakeTensors(summary, file.get()), module, optimizer);
    } catch (const CheckpointError& e) {
      throw CheckpointError(state.path + ": " + e.what() +
                            ". Give another checkpoint folder to start afresh");
    }
  });
  Apply(ctx_, std::move(plan), optimizer);
  const json& metadata = summary["metadata"];
  internal::RestoreRngState(ctx_, torch::Device(torch::kCPU), metadata.value("rng", ""));
  if (ctx_.device().is_cuda() && metadata.contains("rng_cuda")) {
    internal::RestoreRngState(ctx_, ctx_.device(), metadata["rng_cuda"]);
  }
  return state;
}

}  // namespace ddp
