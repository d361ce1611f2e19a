// The state that differs between ranks at the end of a step, and its collection. Pure.
#ifndef DDPRUN_WORKER_SRC_STORAGE_OWN_STATE_H_
#define DDPRUN_WORKER_SRC_STORAGE_OWN_STATE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddp::internal {

// The bytes of a rank's generator and buffers, as the rank stores them in RankPlaces.
struct OwnState {
  std::string generator;
  std::string buffers;

  std::string Packed() const;
  // nullopt: `bytes` is nullopt, or no OwnState.
  static std::optional<OwnState> Unpack(const std::optional<std::string>& bytes);
};

// A rank's generator, as found in its places on this node.
struct LeftGenerator {
  std::optional<std::string> of_the_step;
  bool was_here = false;  // the rank has stored something in this generation
};

// The generators of all ranks at a step. For a rank of this node: the generator that it stored
// here. For a rank of another node: the one in `older`, because its own is on that node. nullopt: a
// generator is not known: `older` has none (""), or a rank of this node has not stored that step.
std::optional<std::vector<std::string>> GeneratorsAtStep(
    int world_size, const std::function<LeftGenerator(int rank)>& left,
    const std::function<std::string(int rank)>& older);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_OWN_STATE_H_
