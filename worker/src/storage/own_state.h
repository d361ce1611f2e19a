// What differs between ranks at the end of a step, and from which places it is put together. Pure.
#ifndef DDPRUN_WORKER_SRC_STORAGE_OWN_STATE_H_
#define DDPRUN_WORKER_SRC_STORAGE_OWN_STATE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddp::internal {

// Bytes of a rank's generator and of its buffers, as the rank leaves them in RankPlaces.
struct OwnState {
  std::string generator;
  std::string buffers;

  std::string Packed() const;
  // nullopt where `bytes` is, or is no OwnState.
  static std::optional<OwnState> Unpack(const std::optional<std::string>& bytes);
};

// A rank's generator, as its places on this node have it.
struct LeftGenerator {
  std::optional<std::string> of_the_step;
  bool was_here = false;  // the rank left something in this generation
};

// The generators of all ranks at a step: of each rank what it left on this node, or, for a rank of
// another node, `older`. That rank has its own there. nullopt where one is not known: `older` has
// none (""), or the rank was on this node and has not left that step.
std::optional<std::vector<std::string>> GeneratorsAtStep(
    int world_size, const std::function<LeftGenerator(int rank)>& left,
    const std::function<std::string(int rank)>& older);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_OWN_STATE_H_
