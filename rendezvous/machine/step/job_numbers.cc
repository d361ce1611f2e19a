#include "rendezvous/machine/step/job_numbers.h"

#include <algorithm>

namespace ddprun {
namespace {

// The finalizer of SplitMix64: each input bit affects all output bits.
std::uint64_t Mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

// FNV-1a.
std::uint64_t JobNumbers::OfJob() const {
  std::uint64_t hash = 0xcbf29ce484222325 ^ life_->requeue_number;
  for (const char c : *job_) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::uint64_t JobNumbers::Draw(std::uint64_t last, TimePoint now) const {
  const auto time = static_cast<std::uint64_t>(now.time_since_epoch().count());
  const std::uint64_t drawn = Mix(last ^ Mix(seed_ ^ OfJob() ^ time));
  return std::max<std::uint64_t>(drawn, 1);
}

RunId JobNumbers::DrawRunId(const Roster& roster) const {
  std::uint64_t drawn = Mix(seed_ ^ OfJob());
  for (const Node& node : roster.nodes()) drawn = Mix(drawn ^ node.agent_id.value);
  return RunId{std::max<std::uint64_t>(drawn, 1)};
}

}  // namespace ddprun
