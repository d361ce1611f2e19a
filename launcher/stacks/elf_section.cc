#include "launcher/stacks/elf_section.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace ddprun::stacks {
namespace {

constexpr std::size_t kMostHeaders = 1024;
constexpr std::size_t kMostNameBytes = 1 << 16;
constexpr std::uint64_t kPageMask = 4095;

bool ReadAt(int file, std::uint64_t offset, void* to, std::size_t size) {
  return ::pread(file, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

// The linked address of the file's beginning; nullopt: no segment loads it.
std::optional<std::uint64_t> LinkedStart(int file, const Elf64_Ehdr& header) {
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMostHeaders)
    return std::nullopt;
  std::vector<Elf64_Phdr> programs(header.e_phnum);
  if (!ReadAt(file, header.e_phoff, programs.data(), programs.size() * sizeof(Elf64_Phdr))) {
    return std::nullopt;
  }
  for (const Elf64_Phdr& program : programs) {
    if (program.p_type == PT_LOAD && (program.p_offset & ~kPageMask) == 0) {
      return program.p_vaddr & ~kPageMask;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ElfSection> FindElfSection(const std::string& path, std::uint64_t start,
                                         std::string_view name) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Elf64_Ehdr header;
  if (!file.valid() || !ReadAt(file.get(), 0, &header, sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kMostHeaders ||
      header.e_shstrndx >= header.e_shnum) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> linked = LinkedStart(file.get(), header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!linked.has_value() ||
      !ReadAt(file.get(), header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr))) {
    return std::nullopt;
  }
  const Elf64_Shdr& names_at = sections[header.e_shstrndx];
  if (names_at.sh_size > kMostNameBytes) return std::nullopt;
  std::string names(names_at.sh_size, '\0');
  if (!ReadAt(file.get(), names_at.sh_offset, names.data(), names.size())) return std::nullopt;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_name >= names.size()) continue;
    if (name != names.c_str() + section.sh_name) continue;
    return ElfSection{section.sh_addr - *linked + start, section.sh_size};
  }
  return std::nullopt;
}

}  // namespace ddprun::stacks
