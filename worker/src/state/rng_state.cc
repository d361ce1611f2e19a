#include "worker/src/state/rng_state.h"

#include <ATen/Context.h>
#include <ddp/errors.h>
#include <torch/types.h>

#include <cstdint>
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

std::string ToHex(const torch::Tensor& bytes) {
  std::string text;
  const auto* const data = bytes.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i) {
    text += kDigits[data[i] >> 4];
    text += kDigits[data[i] & 15];
  }
  return text;
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

}  // namespace

std::string GatherRngStates(const Context& ctx, c10::Device device) {
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
  std::string text;
  for (const torch::Tensor& state : all[0]) {
    if (!text.empty()) text += ',';
    text += ToHex(state.cpu());
  }
  return text;
}

void RestoreRngState(const Context& ctx, c10::Device device, const std::string& states) {
  std::istringstream parts(states);
  std::string mine;
  for (int rank = 0; rank <= ctx.rank(); ++rank) {
    if (!std::getline(parts, mine, ',')) return;
  }
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  try {
    generator.set_state(FromHex(mine));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw CheckpointError("the generator state in the checkpoint does not fit this libtorch: " +
                          TextOf(e));
  }
}

}  // namespace ddp::internal
