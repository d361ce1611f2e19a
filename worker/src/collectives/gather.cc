#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <ddp/gather.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "worker/src/collectives/check_root.h"
#include "worker/src/collectives/text_tensor.h"
#include "worker/src/group/control_device.h"
#include "worker/src/group/failure.h"

namespace ddp {
namespace {

using internal::ControlDevice;
using torch::Tensor;

constexpr std::int64_t kMaxDimensions = 14;
constexpr std::int64_t kNotDense = -1;

// If all data is padded to the longest, one message replaces one message per rank. This is faster,
// unless the padded data is more than twice the data and more than this number of bytes.
constexpr std::int64_t kPaddingThatNeverHurts = 1 << 20;

// Data of at most this size goes with the form, so that one collective does both.
constexpr std::int64_t kSmall = 384;

// What other ranks must know about a tensor before its data arrives.
struct Form {
  std::int64_t dtype = kNotDense;
  std::int64_t dimensions = 0;
  std::array<std::int64_t, kMaxDimensions> sizes{};
};

Form FormOf(const Tensor& tensor) {
  Form form;
  if (!tensor.defined() || tensor.layout() != torch::kStrided || tensor.dim() > kMaxDimensions) {
    return form;
  }
  form.dtype = static_cast<std::int64_t>(tensor.scalar_type());
  form.dimensions = tensor.dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), form.sizes.begin());
  return form;
}

std::vector<std::int64_t> Sizes(const Form& form) {
  return std::vector<std::int64_t>(form.sizes.begin(), form.sizes.begin() + form.dimensions);
}

std::int64_t BytesOf(const Form& form) {
  std::int64_t bytes =
      static_cast<std::int64_t>(c10::elementSize(static_cast<at::ScalarType>(form.dtype)));
  for (const std::int64_t size : Sizes(form)) bytes *= size;
  return bytes;
}

bool Alike(Form a, Form b) {
  a.sizes[0] = b.sizes[0] = 0;
  return a.dtype == b.dtype && a.dimensions == b.dimensions && a.sizes == b.sizes;
}

// For example "Float [3, 5]".
std::string Describe(const Form& form) {
  if (form.dtype == kNotDense) {
    return "no dense tensor of at most " + std::to_string(kMaxDimensions) + " dimensions";
  }
  std::ostringstream text;
  text << c10::toString(static_cast<at::ScalarType>(form.dtype)) << " [";
  const std::vector<std::int64_t> sizes = Sizes(form);
  for (std::size_t i = 0; i < sizes.size(); ++i) text << (i == 0 ? "" : ", ") << sizes[i];
  text << "]";
  return text.str();
}

// Describes the first of `forms` that does not fit the others. Empty: all fit. `owner` is "rank "
// or "tensor ".
std::string Difference(const std::vector<Form>& forms, const std::string& owner) {
  for (std::size_t i = 0; i < forms.size(); ++i) {
    if (forms[i].dtype != kNotDense && Alike(forms[i], forms[0])) continue;
    std::string text = owner + std::to_string(i) + " has " + Describe(forms[i]);
    if (i > 0) text += ", " + owner + "0 has " + Describe(forms[0]);
    return text + ". Dtype and all dimensions but the first must be the same";
  }
  return "";
}

std::int64_t Longest(const std::vector<Form>& forms) {
  std::int64_t longest = 0;
  for (const Form& form : forms) longest = std::max(longest, BytesOf(form));
  return longest;
}

// The data of a tensor as `length` bytes on `device`, padded at the end.
Tensor Wire(const Tensor& tensor, std::int64_t length, c10::Device device) {
  const Tensor dense = tensor.detach().resolve_conj().resolve_neg().contiguous().to(device);
  const Tensor bytes = tensor.numel() == 0 ? torch::empty({0}, dense.options().dtype(torch::kUInt8))
                                           : dense.reshape({-1}).view(torch::kUInt8);
  if (bytes.numel() == length) return bytes;
  const Tensor padded = torch::zeros({length}, bytes.options());
  padded.narrow(0, 0, bytes.numel()).copy_(bytes);
  return padded;
}

Tensor FromWire(const Tensor& bytes, const Form& form, c10::Device device) {
  const auto dtype = static_cast<at::ScalarType>(form.dtype);
  const std::int64_t size = BytesOf(form);
  if (size == 0) return torch::empty(Sizes(form), torch::dtype(dtype).device(device));
  const Tensor own = bytes.numel() == size ? bytes : bytes.narrow(0, 0, size).clone();
  return own.view(dtype).reshape(Sizes(form)).to(device);
}

std::vector<Tensor> EmptyWires(c10::Device device, int count, std::int64_t length) {
  std::vector<Tensor> wires;
  for (int i = 0; i < count; ++i) {
    wires.push_back(torch::empty({length}, torch::dtype(torch::kUInt8).device(device)));
  }
  return wires;
}

// All wires must have the same length.
std::vector<Tensor> AllGatherWires(const Context& ctx, const Tensor& wire) {
  std::vector<std::vector<Tensor>> outputs = {
      EmptyWires(wire.device(), ctx.world_size(), wire.numel())};
  std::vector<Tensor> inputs = {wire};
  ctx.process_group()->allgather(outputs, inputs)->wait(kNoTimeout);
  internal::WaitForDevice(wire.device());
  return outputs[0];
}

// What all ranks know of each other's tensors.
struct Agreed {
  std::vector<Form> forms;
  std::vector<Tensor> wires;  // the data of all ranks, as bytes; empty: it comes later
};

// Exchanges the forms, and with `room` also data that has at most this number of bytes on all
// ranks. If the tensors do not fit together, throws on every rank.
Agreed Agree(const Context& ctx, const std::string& what, const Tensor& tensor, std::int64_t room) {
  const Form here = FormOf(tensor);
  Tensor message = torch::zeros({static_cast<std::int64_t>(sizeof(Form)) + room}, torch::kUInt8);
  std::memcpy(message.data_ptr(), &here, sizeof(here));
  if (here.dtype != kNotDense && BytesOf(here) <= room) {
    const std::int64_t size = BytesOf(here);
    message.narrow(0, sizeof(Form), size).copy_(Wire(tensor, size, c10::kCPU));
  }
  const std::vector<Tensor> messages =
      AllGatherWires(ctx, Wire(message, message.numel(), ControlDevice(ctx)));
  Agreed agreed;
  for (const Tensor& bytes : messages) {
    Form form;
    std::memcpy(&form, bytes.cpu().data_ptr(), sizeof(form));
    agreed.forms.push_back(form);
  }
  const std::string difference = Difference(agreed.forms, "rank ");
  if (!difference.empty()) throw ConfigError(what + ": " + difference + " on every rank");
  if (Longest(agreed.forms) > room) return agreed;
  for (const Tensor& bytes : messages) {
    agreed.wires.push_back(bytes.narrow(0, sizeof(Form), room).clone());
  }
  return agreed;
}

bool PaddingHurts(const std::vector<Form>& forms) {
  std::int64_t sum = 0;
  for (const Form& form : forms) sum += BytesOf(form);
  const std::int64_t padded = Longest(forms) * static_cast<std::int64_t>(forms.size());
  return padded > 2 * sum && padded > kPaddingThatNeverHurts;
}

// Each rank sends its data in turn. For lengths that differ so much that padding would cost more.
std::vector<Tensor> BroadcastInTurn(const Context& ctx, const Tensor& tensor,
                                    const std::vector<Form>& forms, c10::Device device) {
  std::vector<Tensor> wires;
  for (int rank = 0; rank < ctx.world_size(); ++rank) {
    const std::int64_t size = BytesOf(forms[static_cast<std::size_t>(rank)]);
    Tensor wire =
        rank == ctx.rank() ? Wire(tensor, size, device).clone() : EmptyWires(device, 1, size)[0];
    if (size > 0) internal::BroadcastBy(device, ctx, wire, rank);
    wires.push_back(wire);
  }
  return wires;
}

std::vector<Tensor> FromWires(const std::vector<Tensor>& wires, const std::vector<Form>& forms,
                              c10::Device device) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < wires.size(); ++i) {
    tensors.push_back(FromWire(wires[i], forms[i], device));
  }
  return tensors;
}

std::vector<std::string> Texts(const std::vector<Tensor>& tensors) {
  std::vector<std::string> texts;
  for (const Tensor& tensor : tensors) texts.push_back(internal::Text(tensor));
  return texts;
}

// all_gather() with `device`, which must be the same on all ranks.
std::vector<Tensor> AllGatherBy(c10::Device device, const Context& ctx, const Tensor& tensor) {
  std::vector<Tensor> result;
  internal::Collective("all_gather", ctx.rank(), ctx.world_size(), [&] {
    const torch::NoGradGuard no_grad;
    const std::int64_t room = device == ControlDevice(ctx) ? kSmall : 0;
    auto [forms, wires] = Agree(ctx, "all_gather", tensor, room);
    if (wires.empty() && PaddingHurts(forms)) {
      wires = BroadcastInTurn(ctx, tensor, forms, device);
    } else if (wires.empty()) {
      wires = AllGatherWires(ctx, Wire(tensor, Longest(forms), device));
    }
    result = FromWires(wires, forms, tensor.device());
  });
  return result;
}

std::vector<Tensor> GatherBy(c10::Device device, const Context& ctx, const Tensor& tensor,
                             int root) {
  internal::CheckRoot(ctx, "gather to", root);
  std::vector<Tensor> result;
  internal::Collective("gather", ctx.rank(), ctx.world_size(), [&] {
    const torch::NoGradGuard no_grad;
    const std::vector<Form> forms = Agree(ctx, "gather", tensor, /*room=*/0).forms;
    const std::int64_t longest = Longest(forms);
    std::vector<std::vector<Tensor>> outputs;
    if (ctx.rank() == root) outputs.push_back(EmptyWires(device, ctx.world_size(), longest));
    if (longest > 0) {
      std::vector<Tensor> inputs = {Wire(tensor, longest, device)};
      c10d::GatherOptions options;
      options.rootRank = root;
      ctx.process_group()->gather(outputs, inputs, options)->wait(kNoTimeout);
      internal::WaitForDevice(device);
    }
    if (ctx.rank() == root) result = FromWires(outputs[0], forms, tensor.device());
  });
  return result;
}

}  // namespace

std::vector<Tensor> all_gather(const Context& ctx, const Tensor& tensor) {
  return AllGatherBy(ctx.device(), ctx, tensor);
}

std::vector<Tensor> gather(const Context& ctx, const Tensor& tensor, int root) {
  return GatherBy(ctx.device(), ctx, tensor, root);
}

Tensor scatter(const Context& ctx, const std::vector<Tensor>& tensors, int root) {
  internal::CheckRoot(ctx, "scatter from", root);
  std::vector<Form> forms(static_cast<std::size_t>(ctx.world_size()));
  std::string error;
  if (ctx.rank() == root) {
    if (tensors.size() == forms.size()) {
      std::transform(tensors.begin(), tensors.end(), forms.begin(), FormOf);
      error = Difference(forms, "tensor ");
    } else {
      error = std::to_string(tensors.size()) + " tensors for " + std::to_string(forms.size()) +
              " ranks";
    }
    if (!error.empty()) error = "scatter: " + error;
  }
  throw_if_any_failed(ctx, error);

  Tensor result;
  internal::Collective("scatter", ctx.rank(), ctx.world_size(), [&] {
    const torch::NoGradGuard no_grad;
    const auto bytes = static_cast<std::int64_t>(forms.size() * sizeof(Form));
    Tensor words = torch::empty({bytes}, torch::kUInt8);
    std::memcpy(words.data_ptr(), forms.data(), static_cast<std::size_t>(bytes));
    internal::BroadcastBy(ControlDevice(ctx), ctx, words, root);
    std::memcpy(forms.data(), words.data_ptr(), static_cast<std::size_t>(bytes));

    const std::int64_t longest = Longest(forms);
    std::vector<Tensor> outputs = EmptyWires(ctx.device(), 1, longest);
    if (longest > 0) {
      std::vector<std::vector<Tensor>> inputs;
      if (ctx.rank() == root) {
        inputs.emplace_back();
        for (const Tensor& t : tensors) inputs[0].push_back(Wire(t, longest, ctx.device()));
      }
      c10d::ScatterOptions options;
      options.rootRank = root;
      ctx.process_group()->scatter(outputs, inputs, options)->wait(kNoTimeout);
      internal::WaitForDevice(ctx.device());
    }
    result = FromWire(outputs[0], forms[static_cast<std::size_t>(ctx.rank())], ctx.device());
  });
  return result;
}

std::vector<std::string> all_gather_object(const Context& ctx, const std::string& text) {
  return Texts(AllGatherBy(ControlDevice(ctx), ctx, internal::Bytes(text)));
}

std::vector<std::string> all_gather_object(const Context& ctx, const char* text) {
  return all_gather_object(ctx, std::string(text));
}

std::vector<std::string> gather_object(const Context& ctx, const std::string& text, int root) {
  return Texts(GatherBy(ControlDevice(ctx), ctx, internal::Bytes(text), root));
}

std::vector<c10::IValue> all_gather_object(const Context& ctx, const c10::IValue& value) {
  std::string text;
  std::string error;
  try {
    const std::vector<char> pickled = torch::pickle_save(value);
    text.assign(pickled.begin(), pickled.end());
  } catch (const std::exception& e) {
    error = "all_gather_object: cannot pickle a " + value.tagKind() + ": " + internal::TextOf(e);
  }
  std::vector<c10::IValue> values;
  for (const std::string& part : detail::all_gather_text(ctx, text, error)) {
    values.push_back(torch::pickle_load(std::vector<char>(part.begin(), part.end())));
  }
  return values;
}

std::vector<std::string> detail::all_gather_text(const Context& ctx, const std::string& text,
                                                 const std::string& error) {
  // The first byte says whether text (0) or an error (1) follows. So one gather sends both to all
  // ranks.
  std::vector<std::string> parts = all_gather_object(ctx, error.empty() ? "0" + text : "1" + error);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank][0] == '0') continue;
    throw AgreedError("rank " + std::to_string(rank) + ": " + parts[rank].substr(1),
                      static_cast<int>(rank), !error.empty());
  }
  for (std::string& part : parts) part.erase(0, 1);
  return parts;
}

}  // namespace ddp
