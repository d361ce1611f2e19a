#include "worker/examples/gpt/text.h"

#include <torch/types.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpt {
namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& reason) {
  throw std::runtime_error("text " + path + " is not usable: " + reason);
}

std::string Read(const std::string& path, std::int64_t limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail(path, std::string("cannot open it: ") + std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) Fail(path, "cannot read it");
  if (limit > 0 && static_cast<std::size_t>(limit) < text.size()) {
    text.resize(static_cast<std::size_t>(limit));
  }
  return text;
}

}  // namespace

Batch Windows::Get(const std::vector<std::size_t>& indices, torch::Device device) const {
  std::vector<torch::Tensor> windows;
  for (const std::size_t index : indices) {
    windows.push_back(tokens_.narrow(0, static_cast<std::int64_t>(index) * context_, context_ + 1));
  }
  const torch::Tensor all = torch::stack(windows).to(device).to(torch::kInt64);
  return {all.narrow(1, 0, context_), all.narrow(1, 1, context_)};
}

Text Load(const std::string& path, std::int64_t limit, std::int64_t context) {
  const std::string bytes = Read(path, limit);
  std::array<bool, 256> occurs{};
  for (const char c : bytes) occurs[static_cast<std::uint8_t>(c)] = true;
  Text text;
  std::array<std::uint8_t, 256> token_of{};
  for (std::size_t byte = 0; byte < occurs.size(); ++byte) {
    if (!occurs[byte]) continue;
    token_of[byte] = static_cast<std::uint8_t>(text.vocabulary.size());
    text.vocabulary += static_cast<char>(byte);
  }
  const auto size = static_cast<std::int64_t>(bytes.size());
  const std::int64_t train = size / 10 * 9;
  if (train <= context || size - train <= context) {
    Fail(path, "its " + std::to_string(size) + " characters are too few for windows of " +
                   std::to_string(context) + "; the last tenth is for validation");
  }
  torch::Tensor tokens = torch::empty({size}, torch::kUInt8);
  auto* const token = tokens.data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    token[i] = token_of[static_cast<std::uint8_t>(bytes[i])];
  }
  text.train = Windows(tokens.narrow(0, 0, train), context);
  text.validation = Windows(tokens.narrow(0, train, size - train), context);
  return text;
}

}  // namespace gpt
