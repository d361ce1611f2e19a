#include "worker/src/model_sync.h"

#include <ddp/collectives.h>

#include <cstddef>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>
#include <vector>

#include "worker/src/failure.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;  // as PyTorch's DDP

template <typename Dict>
std::vector<NamedTensor> Defined(const Dict& dict) {
  std::vector<NamedTensor> result;
  for (const auto& item : dict) {
    if (item.value().defined()) result.push_back({item.key(), item.value()});
  }
  return result;
}

// What must be the same on all ranks, one line for each tensor.
std::vector<std::string> Layout(const std::vector<NamedTensor>& parameters,
                                const std::vector<NamedTensor>& buffers) {
  std::vector<std::string> lines;
  for (const NamedTensor& p : parameters) {
    lines.push_back("parameter '" + p.name + "' " + Describe(p.tensor) +
                    (p.tensor.requires_grad() ? "" : " without gradient"));
  }
  for (const NamedTensor& b : buffers) {
    lines.push_back("buffer '" + b.name + "' " + Describe(b.tensor));
  }
  return lines;
}

// The first difference in words, or nothing.
std::string Difference(const std::vector<std::string>& here,
                       const std::vector<std::string>& on_rank0) {
  const auto line = [](const std::vector<std::string>& lines, std::size_t i) {
    return i < lines.size() ? lines[i] : std::string("nothing");
  };
  for (std::size_t i = 0; i < std::max(here.size(), on_rank0.size()); ++i) {
    if (line(here, i) == line(on_rank0, i)) continue;
    std::string text = "the model differs from rank 0's: this rank has " + line(here, i) +
                       ", rank 0 has " + line(on_rank0, i);
    if (here.size() != on_rank0.size()) {
      text += " (" + std::to_string(here.size()) + " tensors here, " +
              std::to_string(on_rank0.size()) + " on rank 0)";
    }
    return text + ". All ranks must build the same module";
  }
  return "";
}

}  // namespace

std::vector<NamedTensor> Parameters(const torch::nn::Module& module) {
  return Defined(module.named_parameters());
}

std::vector<NamedTensor> Buffers(const torch::nn::Module& module) {
  return Defined(module.named_buffers());
}

std::string Describe(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.dtype().name() << " [";
  for (std::int64_t i = 0; i < tensor.dim(); ++i) text << (i == 0 ? "" : ", ") << tensor.size(i);
  text << "]";
  return text.str();
}

void CheckSameModel(const Context& ctx, const std::vector<NamedTensor>& parameters,
                    const std::vector<NamedTensor>& buffers) {
  const std::vector<std::string> here = Layout(parameters, buffers);
  std::string text;
  for (const std::string& line : here) text += line + "\n";
  std::istringstream rank0(broadcast(ctx, text));
  std::vector<std::string> on_rank0;
  for (std::string line; std::getline(rank0, line);) on_rank0.push_back(line);
  throw_if_any_failed(ctx, Difference(here, on_rank0));
}

void BroadcastFromRank0(const Context& ctx, const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty() || ctx.world_size() == 1) return;
  Collective("broadcast of the model from rank 0", ctx.rank(), ctx.world_size(), [&] {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> wire;
    for (const torch::Tensor& tensor : tensors) wire.push_back(tensor.detach().to(ctx.device()));
    c10d::broadcast_coalesced(ctx.process_group(), wire, kBroadcastBytes, 0);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (wire[i].data_ptr() != tensors[i].data_ptr()) tensors[i].detach().copy_(wire[i]);
    }
  });
}

}  // namespace ddp::internal
