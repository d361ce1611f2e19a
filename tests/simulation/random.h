// The random numbers of a simulation: equal for equal seeds, on every machine and library.
#ifndef DDPRUN_TESTS_SIMULATION_RANDOM_H_
#define DDPRUN_TESTS_SIMULATION_RANDOM_H_

#include <cstdint>

namespace ddprun::sim {

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // low..high, both included. The bias of the remainder does not matter here.
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(Next() % static_cast<std::uint64_t>(high - low + 1));
  }
  int Int(int low, int high) { return static_cast<int>(Between(low, high)); }
  // True with a probability of `percent` %.
  bool Percent(int percent) { return Int(0, 99) < percent; }
  // Each octave of low..high (low to 2 low, 2 low to 4 low, ...) is equally likely. So small values
  // are as frequent as large ones.
  std::int64_t Wide(std::int64_t low, std::int64_t high) {
    int octaves = 0;
    while ((low << (octaves + 1)) <= high) ++octaves;
    const std::int64_t from = low << Int(0, octaves);
    return Between(from, from * 2 < high ? from * 2 : high);
  }

 private:
  std::uint64_t state_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_RANDOM_H_
