// The cases of tests/python/parity_cases.json under ddp::, for test_parity.py;
// tests/programs/python/parity_trainer.py does the same in Python.
//   parity_trainer OUT CASES.json START
// START/<model>.pt has the initial weights; only rank 0 loads them. Leaves OUT/rank<rank>.pt with
// the results of each case: the state, the gradients of the last step, the losses and the sizes of
// the buckets. Their names begin with <case>.<optimizer>.
#include <ddp/ddp.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/programs/parity_models.h"

namespace {

using nlohmann::json;
using parity::Model;
using Parallel = ddp::DistributedDataParallel<Model>;

constexpr int kSteps = 25;
constexpr int kBatch = 8;
constexpr int kFirstCompressed = 5;              // the first step that PowerSGD compresses
constexpr int kUnevenBatches[] = {8, 5, 11, 2};  // the batch size of each rank, for SyncBatchNorm

std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(const std::string& name,
                                                       const std::vector<torch::Tensor>& p) {
  if (name == "plain_sgd") {
    return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.05));
  }
  if (name == "sgd") {
    return std::make_unique<torch::optim::SGD>(
        p, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-3).nesterov(true));
  }
  if (name == "adam" || name == "pythons_adam") {
    return std::make_unique<torch::optim::Adam>(
        p, torch::optim::AdamOptions(0.01).weight_decay(1e-4).amsgrad(true));
  }
  throw std::invalid_argument("no optimizer '" + name + "'");
}

ddp::DataParallelOptions Options(const json& c) {
  ddp::DataParallelOptions options;
  options.broadcast_buffers = c.value("broadcast_buffers", true);
  if (c.contains("bucket_cap_mb")) options.bucket_cap_mb = c["bucket_cap_mb"].get<double>();
  if (c.contains("first_bucket_bytes")) {
    options.first_bucket_bytes = c["first_bucket_bytes"].get<std::int64_t>();
  }
  options.find_unused_parameters = c.value("find_unused_parameters", false);
  options.gradient_as_bucket_view = c.value("gradient_as_bucket_view", false);
  options.static_graph = c.value("static_graph", false);
  return options;
}

// Like Python's double(). Module::to() of C++ would also convert the number of batches.
void ToDouble(const Model& model) {
  for (torch::Tensor& p : model.parameters()) p.set_data(p.detach().to(torch::kFloat64));
  for (torch::Tensor& buffer : model.buffers()) {
    if (buffer.is_floating_point()) buffer.set_data(buffer.to(torch::kFloat64));
  }
}

std::shared_ptr<Model> StartModel(const ddp::Context& ctx, const json& c,
                                  const std::string& folder) {
  const auto name = c.at("model").get<std::string>();
  // The initial weights of the other ranks must not matter.
  ddp::seed_everything(1, static_cast<std::uint64_t>(ctx.rank()));
  const bool sync = c.value("sync_batch_norm", false);
  const auto model = sync ? std::make_shared<parity::SyncNorm>() : parity::MakeModel(name);
  if (c.value("double", false)) ToDouble(*model);
  if (sync) ddp::convert_sync_batchnorm(ctx, model);
  if (ctx.rank() == 0) {
    ddp::load_into(*model, ddp::load_state_dict(folder + "/" + name + ".pt"));
  } else {
    for (torch::Tensor& buffer : model->buffers()) buffer.add_(ctx.rank());
  }
  for (const std::string frozen : c.value("frozen", json::array())) {
    model->named_parameters()[frozen].set_requires_grad(false);
  }
  if (c.value("channels_last", false)) {
    for (torch::Tensor& p : model->parameters()) {
      if (p.dim() == 4) p.set_data(p.detach().contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }
  return model;
}

torch::Tensor Loss(const json& c, Parallel& model, int batch, int rank) {
  at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(1000 * batch + rank));
  const torch::Tensor x = torch::randn({kBatch, 1, 8, 8}, generator);
  const torch::Tensor y = torch::randint(0, 10, {kBatch}, generator, torch::kInt64);
  const int turn = c.value("turn_by_rank", false) ? rank : batch + rank;
  return torch::cross_entropy_loss(model(x, turn), y);
}

ddp::CommHook Hook(const ddp::Context& ctx, const json& c) {
  if (c.at("hook") == "fp16_compress") return ddp::fp16_compress(ctx);
  ddp::PowerSgdOptions options;
  options.start_power_sgd_iter = kFirstCompressed;
  options.matrix_approximation_rank = c.value("matrix_approximation_rank", 1);
  options.use_error_feedback = c.value("use_error_feedback", true);
  options.warm_start = c.value("warm_start", true);
  options.orthogonalization_epsilon = c.value("orthogonalization_epsilon", 0.0);
  options.random_seed = c.value("random_seed", 0U);
  return ddp::power_sgd(ctx, options);
}

// In "uneven" cases the number of steps differs from rank to rank: the last rank has the most, and
// rank 0 may have none.
int Steps(const ddp::Context& ctx, const json& c) {
  if (!c.value("uneven", false)) return kSteps;
  if (c.value("rank_0_has_none", false) && ctx.rank() == 0 && ctx.world_size() > 1) return 0;
  return kSteps - 6 * ((ctx.rank() + 1) % ctx.world_size());
}

// Summed over the ranks and divided by their number, as DistributedDataParallel does with its
// gradients, this is the mean loss of all ranks' samples.
torch::Tensor UnevenLoss(const ddp::Context& ctx, const json& c, Parallel& model, int batch) {
  const int size = kUnevenBatches[ctx.rank()];
  const int all = std::accumulate(kUnevenBatches, kUnevenBatches + ctx.world_size(), 0);
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(
      static_cast<std::uint64_t>(1000 * batch + ctx.rank()));
  const torch::Tensor x = torch::randn({size, 1, 8, 8}, generator)
                              .to(c.value("double", false) ? torch::kFloat64 : torch::kFloat32);
  const torch::Tensor y = torch::randint(0, 10, {size}, generator, torch::kInt64);
  return torch::cross_entropy_loss(model(x, batch), y)
      .mul(static_cast<double>(size) * ctx.world_size() / all);
}

std::vector<double> Train(const ddp::Context& ctx, const json& c, Parallel& model,
                          torch::optim::Optimizer& optimizer) {
  const int steps = Steps(ctx, c);
  const int micro_batches = c.value("micro_batches", 1);
  const int evaluate_every = c.value("evaluate_every", kSteps + 1);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    if (step % c.value("zero_grad_every", 1) == 0) model.zero_grad(c.value("set_to_none", true));
    for (int i = 0; i < micro_batches; ++i) {
      const bool last = i + 1 == micro_batches;
      const std::unique_ptr<ddp::NoSync> no_sync(last ? nullptr : new ddp::NoSync(model.no_sync()));
      const int batch = step * micro_batches + i;
      const bool sync = c.value("sync_batch_norm", false);
      const torch::Tensor loss =
          sync ? UnevenLoss(ctx, c, model, batch) : Loss(c, model, batch, ctx.rank());
      losses.push_back(sync ? ddp::all_reduce_mean(ctx, loss.item<double>()) : loss.item<double>());
      loss.backward();
    }
    optimizer.step();
    if (step % evaluate_every == evaluate_every - 1) {
      const torch::NoGradGuard no_grad;
      losses.push_back(Loss(c, model, step, ctx.rank()).item<double>());
    }
  }
  return losses;
}

void Run(const ddp::Context& ctx, const json& c, const std::string& optimizer_name,
         const std::string& folder, ddp::StateDict* results) {
  const std::shared_ptr<Model> module = StartModel(ctx, c, folder);
  Parallel model(ctx, module, Options(c));
  const auto optimizer = MakeOptimizer(optimizer_name, model.parameters());
  ddp::seed_everything(5, static_cast<std::uint64_t>(ctx.rank()));
  if (c.contains("hook")) model.register_comm_hook(Hook(ctx, c));
  std::vector<double> losses;
  if (c.value("uneven", false)) {
    ddp::JoinOptions options;
    options.divide_by_initial_world_size = c.value("divide_by_initial_world_size", true);
    model.join([&] { losses = Train(ctx, c, model, *optimizer); }, options);
  } else {
    losses = Train(ctx, c, model, *optimizer);
  }

  const std::string prefix = c.at("name").get<std::string>() + "." + optimizer_name + ".";
  for (const auto& item : ddp::state_dict(*module)) {
    results->insert(prefix + "state." + item.key(), item.value().clone());
  }
  std::set<const at::TensorImpl*> seen;  // named_parameters() repeats shared parameters
  for (const auto& item : module->named_parameters()) {
    torch::Tensor gradient = item.value().grad();
    if (!gradient.defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    if (gradient.is_sparse()) gradient = gradient.to_dense();
    results->insert(prefix + "gradient." + item.key(), gradient.clone());
  }
  std::vector<std::int64_t> buckets;
  for (const std::size_t bytes : model.bucket_sizes()) {
    buckets.push_back(static_cast<std::int64_t>(bytes));
  }
  if (Steps(ctx, c) == 0) buckets.clear();  // Python learns the sizes only in a forward
  results->insert(prefix + "losses", torch::tensor(losses, torch::kFloat64));
  results->insert(prefix + "buckets", torch::tensor(buckets, torch::kInt64));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: parity_trainer OUT CASES.json START\n";
    return 64;
  }
  return ddp::run([&] {
    torch::set_num_threads(1);
    const ddp::Context ctx = ddp::init();
    ddp::StateDict results;
    for (const json& c : json::parse(std::ifstream(argv[2]))) {
      for (const std::string optimizer : c.value("optimizers", json{"sgd", "adam"})) {
        Run(ctx, c, optimizer, argv[3], &results);
      }
    }
    ddp::save_state_dict(results,
                         std::string(argv[1]) + "/rank" + std::to_string(ctx.rank()) + ".pt");
    return 0;
  });
}
