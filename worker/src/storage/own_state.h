// The part of the state that differs between ranks at the end of a step. Pure functions.
#ifndef DDPRUN_WORKER_SRC_STORAGE_OWN_STATE_H_
#define DDPRUN_WORKER_SRC_STORAGE_OWN_STATE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddp::internal {

// The bytes of a rank's random generator and buffers. The rank stores them in RankSlots.
struct OwnState {
  std::string generator;
  std::string buffers;

  std::string Packed() const;
  // nullopt: `bytes` is nullopt, or is no OwnState.
  static std::optional<OwnState> Unpack(const std::optional<std::string>& bytes);
};

// What this node has of a rank's generator.
struct LeftGenerator {
  std::optional<std::string> of_the_step;
  bool was_here = false;  // the rank has stored something here in this generation
};

// Returns a generator for each rank. For a rank of this node: the generator that it has stored here
// for the step. For a rank of another node: its generator in `older`, because the newer one is on
// that node. nullopt: a generator is unknown. Either `older` has none (""), or a rank of this node
// has not stored that step.
std::optional<std::vector<std::string>> GeneratorsAtStep(
    int world_size, const std::function<LeftGenerator(int rank)>& left,
    const std::function<std::string(int rank)>& older);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_OWN_STATE_H_
