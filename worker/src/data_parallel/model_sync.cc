#include "worker/src/data_parallel/model_sync.h"

#include <c10/core/InferenceMode.h>
#include <ddp/collectives.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "worker/src/group/failure.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;  // like PyTorch's DDP
constexpr std::int64_t kAlignment = 16;  // in a packed message: the size of complex double

// True if `module` makes sparse gradients. The same rule as in PyTorch's DDP.
bool MakesSparseGradients(const torch::nn::Module& module) {
  if (const auto* embedding = dynamic_cast<const torch::nn::EmbeddingImpl*>(&module)) {
    return embedding->options.sparse();
  }
  if (const auto* bag = dynamic_cast<const torch::nn::EmbeddingBagImpl*>(&module)) {
    return bag->options.sparse();
  }
  return false;
}

// Adds the tensors that `module` itself has (`own` returns them), and then those of its children.
template <typename Own>
void Collect(const torch::nn::Module& module, const std::string& prefix, const Own& own,
             std::vector<NamedTensor>* result) {
  const bool sparse = MakesSparseGradients(module);
  for (const auto& item : own(module)) {
    if (item.value().defined()) result->push_back({prefix + item.key(), item.value(), sparse});
  }
  for (const auto& child : module.named_children()) {
    Collect(*child.value(), prefix + child.key() + ".", own, result);
  }
}

std::string List(at::IntArrayRef numbers) {
  std::ostringstream text;
  for (std::size_t i = 0; i < numbers.size(); ++i) text << (i == 0 ? "[" : ", ") << numbers[i];
  return numbers.empty() ? "[]" : text.str() + "]";
}

// True if the strides are those of a new tensor of this shape.
bool HasUsualStrides(const torch::Tensor& tensor) {
  std::int64_t expected = 1;
  for (std::int64_t i = tensor.dim() - 1; i >= 0; --i) {
    if (tensor.stride(i) != expected) return false;
    expected *= std::max<std::int64_t>(tensor.size(i), 1);
  }
  return true;
}

// For example "float [10, 5]"; with unusual strides "float [10, 5] strides [1, 10]".
std::string DescribeLayout(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << Describe(tensor);
  if (tensor.layout() != torch::kStrided) {
    text << " " << tensor.layout();
  } else if (!HasUsualStrides(tensor)) {
    text << " strides " << List(tensor.strides());
  }
  return text.str();
}

// Names a parameter of this rank that is not on `device`. Empty: all are.
std::string NotOnDevice(const std::vector<NamedTensor>& parameters, c10::Device device) {
  for (const NamedTensor& p : parameters) {
    if (p.tensor.device() == device) continue;
    return "parameter '" + p.name + "' is on " + p.tensor.device().str() + ", but this rank's " +
           "device is " + device.str() + ". Call module->to(ctx.device()) first";
  }
  return "";
}

// What must be equal on all ranks, one line per tensor.
std::vector<std::string> Layout(const std::vector<NamedTensor>& parameters,
                                const std::vector<NamedTensor>& buffers) {
  std::vector<std::string> lines;
  for (const NamedTensor& p : parameters) {
    lines.push_back("parameter '" + p.name + "' " + DescribeLayout(p.tensor) +
                    (p.tensor.requires_grad() ? "" : " without gradient"));
  }
  for (const NamedTensor& b : buffers) {
    lines.push_back("buffer '" + b.name + "' " + DescribeLayout(b.tensor));
  }
  return lines;
}

// Describes the first difference. Empty: there is none.
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
  std::vector<NamedTensor> result;
  Collect(
      module, "", [](const torch::nn::Module& m) { return m.named_parameters(false); }, &result);
  return result;
}

std::vector<NamedTensor> Buffers(const torch::nn::Module& module) {
  std::vector<NamedTensor> result;
  Collect(
      module, "", [](const torch::nn::Module& m) { return m.named_buffers(false); }, &result);
  return result;
}

std::vector<NamedTensor> Unique(std::vector<NamedTensor> tensors) {
  std::unordered_set<const at::TensorImpl*> seen;
  std::vector<NamedTensor> result;
  for (NamedTensor& item : tensors) {
    if (seen.insert(item.tensor.unsafeGetTensorImpl()).second) result.push_back(std::move(item));
  }
  return result;
}

std::string Describe(const torch::Tensor& tensor) {
  return std::string(tensor.dtype().name()) + " " + List(tensor.sizes());
}

void CheckSameModel(const Context& ctx, const std::vector<NamedTensor>& parameters,
                    const std::vector<NamedTensor>& buffers) {
  const std::vector<std::string> here = Layout(parameters, buffers);
  std::string text;
  for (const std::string& line : here) text += line + "\n";
  std::istringstream rank0(broadcast(ctx, text));
  std::vector<std::string> on_rank0;
  for (std::string line; std::getline(rank0, line);) on_rank0.push_back(line);
  std::string problem = Difference(here, on_rank0);
  if (problem.empty()) problem = NotOnDevice(parameters, ctx.device());
  throw_if_any_failed(ctx, problem);
}

void BroadcastFrom(int root, const Context& ctx, const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty() || ctx.world_size() == 1) return;
  Collective("broadcast of the model", ctx.rank(), ctx.world_size(), [&] {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> wire;
    // As bytes, because Gloo supports neither bool nor complex numbers.
    for (const torch::Tensor& tensor : tensors) {
      wire.push_back(tensor.detach().to(ctx.device()).contiguous().view({-1}).view(torch::kUInt8));
    }
    c10d::broadcast_coalesced(ctx.process_group(), wire, kBroadcastBytes, root);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const torch::Tensor& to = tensors[i];
      if (wire[i].data_ptr() == to.data_ptr()) continue;
      to.detach().copy_(wire[i].view(to.scalar_type()).view(to.sizes()));
    }
  });
}

void PackedBroadcast::From(int root, const Context& ctx,
                           const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty() || ctx.world_size() == 1) return;
  std::vector<std::int64_t> places;
  std::int64_t size = 0;
  for (const torch::Tensor& tensor : tensors) {
    places.push_back(size);
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    size += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  Collective("broadcast of the buffers", ctx.rank(), ctx.world_size(), [&] {
    // A tensor made in inference mode cannot be written outside of it, and wire_ is used in both
    // modes.
    const c10::InferenceMode normal(false);
    const torch::NoGradGuard no_grad;
    if (!wire_.defined() || wire_.numel() != size) {
      wire_ = torch::empty({size}, torch::TensorOptions(torch::kUInt8).device(ctx.device()));
    }
    // The place of tensor i in the message, as a tensor of the same shape and dtype.
    const auto place = [&](std::size_t i) {
      const torch::Tensor& like = tensors[i];
      return wire_.narrow(0, places[i], static_cast<std::int64_t>(like.nbytes()))
          .view(like.scalar_type())
          .view(like.sizes());
    };
    if (ctx.rank() == root) {
      for (std::size_t i = 0; i < tensors.size(); ++i) place(i).copy_(tensors[i].detach());
    }
    std::vector<torch::Tensor> message = {wire_};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    ctx.process_group()->broadcast(message, options)->wait();
    if (ctx.rank() == root) return;
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].detach().copy_(place(i));
  });
}

}  // namespace ddp::internal
