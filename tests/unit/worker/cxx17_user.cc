// A user's program in C++17. It only has to compile.
#include <ddp/ddp.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <iostream>
#include <string>

static_assert(__cplusplus / 100 == 2000 + DDP_TEST_CXX_STANDARD,
              "this file is here to be compiled as C++17, or the oldest that libtorch takes");

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() : layer(register_module("layer", torch::nn::Linear(4, 1))) {}
  std::pair<torch::Tensor, int> forward(const torch::Tensor& x, int times) {
    return {layer(x) * times, times};
  }
  torch::nn::Linear layer;
};
TORCH_MODULE(Net);

struct Output {
  torch::Tensor y;
};

struct StructNet : torch::nn::Module {
  StructNet() : layer(register_module("layer", torch::nn::Linear(4, 1))) {}
  Output forward(const torch::Tensor& x) { return {layer(x)}; }
  torch::nn::Linear layer;
};

}  // namespace

template <>
struct ddp::OutputTensors<Output> {
  template <typename Visit>
  static void for_each(Output& output, Visit&& visit) {
    visit(output.y);
  }
};

ddp::DataParallelStatistics cxx17_results_and_accumulation(const ddp::Context& ctx) {
  ddp::DataParallelOptions options;
  options.find_unused_parameters = true;
  options.bucket_cap_mb = 2.5;
  ddp::DistributedDataParallel<StructNet> model(ctx, std::make_shared<StructNet>(), options);
  {
    const auto no_sync = model.no_sync();
    model(torch::ones({1, 4})).y.sum().backward();
  }
  model(torch::ones({1, 4})).y.sum().backward();
  model.zero_grad(/*set_to_none=*/false);
  return model.statistics();
}

int cxx17_user() {
  return ddp::run([] {
    ddp::Options options;
    options.backend = "gloo";
    const ddp::Context ctx = ddp::init(options);
    Net net;
    ddp::DistributedDataParallel<NetImpl> model(ctx, net);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    if (ctx.rank() == 0) {
      const ddp::StateDict weights = ddp::load_state_dict("pretrained.pt");
      const ddp::IncompatibleKeys keys =
          ddp::load_into(model.module(), ddp::with_prefix(weights, "model."), /*strict=*/false);
      for (const std::string& name : keys.missing) std::cerr << "not loaded: " << name << '\n';
      ddp::save_state_dict(ddp::state_dict(model.module()), "net.safetensors",
                           ddp::StateDictFormat::kSafetensors);
    }
    torch::optim::StepLR schedule(optimizer, 30, 0.1);
    ddp::DistributedSampler sampler(100, ctx.world_size(), ctx.rank());
    const ddp::CheckpointParts parts =
        ddp::CheckpointParts(model, optimizer).with(schedule).with(sampler);
    ddp::Checkpointer checkpointer(ctx, "checkpoints");
    ddp::State state;
    if (const std::optional<ddp::State> found = checkpointer.load_latest(parts)) state = *found;
    sampler.set_epoch(static_cast<std::size_t>(state.epoch));
    ddp::main_first(ctx, [&] { ddp::log_rank0(ctx, sampler.state().to_string()); });
    ddp::on_rank0(ctx, std::cout) << ddp::all_gather_object(ctx, "host").size() << "\n";
    while (const auto indices = sampler.next(10)) {
      model.zero_grad();
      const auto [y, times] = model(torch::ones({static_cast<long>(indices->size()), 4}), 2);
      (y.mean() * times).backward();
      optimizer.step();
    }
    ddp::verify_replicas(ctx, model.module());
    ddp::barrier(ctx);
    return 0;
  });
}
