// /proc/PID/maps, parsed. Pure.
#ifndef DDPRUN_LAUNCHER_STACKS_MEMORY_MAP_H_
#define DDPRUN_LAUNCHER_STACKS_MEMORY_MAP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::stacks {

struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;  // the first address after it
  bool readable = false;
  bool writable = false;
  bool executable = false;
  std::uint64_t offset = 0;  // in the file
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint64_t inode = 0;  // 0: no file
  std::string path;         // as the process sees it; "[stack]", "[vdso]"; empty: no name
};

// In the order of addresses, as the kernel writes them. Skips malformed lines.
std::vector<Mapping> ParseMaps(std::string_view text);

// The mapping that contains `address`; nullptr: none. `maps` from ParseMaps().
const Mapping* MappingAt(const std::vector<Mapping>& maps, std::uint64_t address);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_MEMORY_MAP_H_
