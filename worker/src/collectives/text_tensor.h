// Converts between text and a tensor of bytes, which both NCCL and Gloo can send.
#ifndef DDPRUN_WORKER_SRC_COLLECTIVES_TEXT_TENSOR_H_
#define DDPRUN_WORKER_SRC_COLLECTIVES_TEXT_TENSOR_H_

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace ddp::internal {

inline torch::Tensor Bytes(const std::string& text) {
  torch::Tensor bytes = torch::empty({static_cast<std::int64_t>(text.size())}, torch::kUInt8);
  if (!text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

inline std::string Text(const torch::Tensor& bytes) {
  const torch::Tensor local = bytes.cpu();
  if (local.numel() == 0) return "";
  return std::string(static_cast<const char*>(local.data_ptr()),
                     static_cast<std::size_t>(local.numel()));
}

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_COLLECTIVES_TEXT_TENSOR_H_
