// Finds a section of a running program or library. Does not use libelf, because the files come from
// untrusted authors, and this code runs in ddprun itself. Any thread.
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

// `start`: the address where offset 0 of `path` is mapped. nullopt: no such section, or no 64-bit
// ELF file.
std::optional<ElfSection> FindElfSection(const std::string& path, std::uint64_t start,
                                         std::string_view name);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_ELF_SECTION_H_
