#include "worker/src/storage/own_state.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace ddp::internal {

std::string OwnState::Packed() const {
  const std::uint64_t size = generator.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  return bytes + generator + buffers;
}

std::optional<OwnState> OwnState::Unpack(const std::optional<std::string>& bytes) {
  std::uint64_t size = 0;
  if (!bytes || bytes->size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, bytes->data(), sizeof(size));
  if (size > bytes->size() - sizeof(size)) return std::nullopt;
  return OwnState{bytes->substr(sizeof(size), size), bytes->substr(sizeof(size) + size)};
}

std::optional<std::vector<std::string>> GeneratorsAtStep(
    int world_size, const std::function<LeftGenerator(int rank)>& left,
    const std::function<std::string(int rank)>& older) {
  std::vector<std::string> all;
  for (int rank = 0; rank < world_size; ++rank) {
    LeftGenerator own = left(rank);
    if (!own.of_the_step && own.was_here) return std::nullopt;
    std::string generator = own.of_the_step ? *std::move(own.of_the_step) : older(rank);
    if (generator.empty()) return std::nullopt;
    all.push_back(std::move(generator));
  }
  return all;
}

}  // namespace ddp::internal
