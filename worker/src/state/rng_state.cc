#include "worker/src/state/rng_state.h"

#include <ATen/Context.h>
#include <ddp/errors.h>
#include <torch/types.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "worker/src/group/control_device.h"
#include "worker/src/group/failure.h"

namespace ddp::internal {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

std::string ToHex(const std::uint8_t* data, std::size_t size) {
  std::string text;
  text.reserve(2 * size);
  for (std::size_t i = 0; i < size; ++i) {
    text += kDigits[data[i] >> 4];
    text += kDigits[data[i] & 15];
  }
  return text;
}

std::string ToHex(const torch::Tensor& bytes) {
  return ToHex(bytes.data_ptr<std::uint8_t>(), static_cast<std::size_t>(bytes.numel()));
}

torch::Tensor FromHex(const std::string& text) {
  const std::string digits = kDigits;
  torch::Tensor bytes =
      torch::zeros({static_cast<std::int64_t>((text.size() + 1) / 2)}, torch::kUInt8);
  auto* const data = bytes.data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = digits.find(text[i]);
    if (digit == std::string::npos) {
      throw CheckpointError("the generator state in the checkpoint is not hexadecimal");
    }
    data[i / 2] = static_cast<std::uint8_t>(data[i / 2] << 4 | digit);
  }
  return bytes;
}

void Set(c10::Device device, const torch::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const std::exception& e) {
    throw CheckpointError("the generator state in the checkpoint does not fit this libtorch: " +
                          TextOf(e));
  }
}

}  // namespace

std::vector<torch::Tensor> GatherRngBytes(const Context& ctx, c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  torch::Tensor mine;
  {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    mine = generator.get_state().to(ControlDevice(ctx));
  }
  std::vector<std::vector<torch::Tensor>> all(1);
  for (int rank = 0; rank < ctx.world_size(); ++rank) all[0].push_back(torch::empty_like(mine));
  std::vector<torch::Tensor> input = {mine};
  Collective("gathering the generator states", ctx.rank(), ctx.world_size(),
             [&] { ctx.process_group()->allgather(all, input)->wait(); });
  return std::move(all[0]);
}

std::string GatherRngStates(const Context& ctx, c10::Device device) {
  return RngText(GatherRngBytes(ctx, device));
}

std::string RngText(const std::vector<torch::Tensor>& states) {
  std::string text;
  for (const torch::Tensor& state : states) {
    if (!text.empty()) text += ',';
    text += ToHex(state.cpu());
  }
  return text;
}

std::string RngStateOf(const std::string& states, int rank) {
  std::istringstream parts(states);
  std::string one;
  for (int i = 0; i <= rank; ++i) {
    if (!std::getline(parts, one, ',')) return "";
  }
  return one;
}

std::string RngText(const std::string& bytes) {
  return ToHex(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

std::string OwnRngState() {
  at::Generator generator = at::globalContext().defaultGenerator(c10::Device(c10::kCPU));
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const torch::Tensor state = generator.get_state();
  return {static_cast<const char*>(state.data_ptr()), state.nbytes()};
}

void SetOwnRngState(const std::string& bytes) {
  const torch::Tensor state =
      torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
  std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
  Set(c10::Device(c10::kCPU), state);
}

void RestoreRngState(const Context& ctx, c10::Device device, const std::string& states) {
  const std::string mine = RngStateOf(states, ctx.rank());
  if (!mine.empty()) Set(device, FromHex(mine));
}

}  // namespace ddp::internal
