// The state of a training, with hashes instead of tensors. Each hash covers all that the tensor
// depends on. So a step from a wrong state changes every later hash.
#ifndef DDPRUN_TESTS_SIMULATION_TRAINED_STATE_H_
#define DDPRUN_TESTS_SIMULATION_TRAINED_STATE_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun::sim {

using Digest = std::uint64_t;

inline Digest Mixed(Digest a, Digest b) {
  Digest z = (a ^ (b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// A digest, as the bytes that the library would store.
inline std::string BytesOf(Digest digest) {
  return {reinterpret_cast<const char*>(&digest), sizeof(digest)};
}
inline Digest DigestOf(const std::string& bytes) {
  Digest digest = 0;
  if (bytes.size() == sizeof(digest)) std::memcpy(&digest, bytes.data(), sizeof(digest));
  return digest;
}

// The state of one rank after a step. Parameters (with the optimizer's state) are equal on all
// ranks.
struct RankState {
  std::int64_t step = 0;
  Digest parameters = 1;
  Digest generator = 0;
  Digest buffers = 0;  // 0: the model has none
};

// The contents of a snapshot or checkpoint.
struct WholeState {
  std::uint32_t requeue_number = 0;
  Generation generation{-1};  // -1: a training that begins has no state
  std::int64_t step = 0;
  Digest parameters = 1;
  Digest buffers = 0;                // rank 0's
  std::vector<Digest> generators{};  // by rank
  bool at_the_end = false;           // made by a process that left: ranks have newer generators
};

// What all ranks must agree on about a step of a generation.
struct StepRecord {
  int entered = 0;  // ranks that stored their own state and then came to the last collective
  int finished = 0;
  Digest gradients = 0;  // the sum over all ranks
  std::map<int, Digest> generators{};
  Digest buffers = 0;                  // rank 0's
  std::optional<Digest> parameters{};  // set by the first rank that finishes the step
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_TRAINED_STATE_H_
