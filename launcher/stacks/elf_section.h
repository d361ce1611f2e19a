// Where a section of a running program or library is, without libelf: this is called in ddprun
// itself, for files that anybody may have made. Any thread.
#ifndef DDPRUN_LAUNCHER_STACKS_ELF_SECTION_H_
#define DDPRUN_LAUNCHER_STACKS_ELF_SECTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::stacks {

struct ElfSection {
  std::uint64_t address = 0;  // in the process
  std::uint64_t size = 0;
};

// `path` is mapped with its offset 0 at `start`. nullopt: no such section, or no 64-bit ELF file.
std::optional<ElfSection> FindElfSection(const std::string& path, std::uint64_t start,
                                         std::string_view name);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_ELF_SECTION_H_
