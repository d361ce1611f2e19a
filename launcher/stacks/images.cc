#include "launcher/stacks/images.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "launcher/stacks/process_facts.h"

namespace ddprun::stacks {
namespace {

// No process has code here: above the heap of a program without PIE, below addresses that the
// kernel chooses.
constexpr std::uint64_t kFirstBase = std::uint64_t{1} << 44;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kGapBytes = std::uint64_t{1} << 21;
constexpr absl::string_view kVdso = "[vdso]";

std::uint64_t PageOf(std::uint64_t address) { return address & ~(kPage - 1); }

// The kernel's vDSO, the same in all processes of this machine.
UniqueFd OwnVdso() {
  const std::uint64_t start = ::getauxval(AT_SYSINFO_EHDR);
  const std::vector<Mapping> maps = ParseMaps(ReadProc("/proc/self/maps", 1 << 22));
  const Mapping* const vdso = start == 0 ? nullptr : MappingAt(maps, start);
  if (vdso == nullptr) return UniqueFd();
  UniqueFd file(::memfd_create("vdso", MFD_CLOEXEC));
  const std::size_t size = vdso->end - vdso->start;
  if (!file.valid() || ::write(file.get(), reinterpret_cast<const void*>(vdso->start), size) !=
                           static_cast<ssize_t>(size)) {
    return UniqueFd();
  }
  return file;
}

UniqueFd OpenIfSame(const std::string& path, const Mapping& mapping) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  // On some file systems (overlay, btrfs) the mapping shows another device, so only the inode and
  // the file type are compared.
  if (!file.valid() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_ino != mapping.inode) {
    return UniqueFd();
  }
  return file;
}

UniqueFd OpenImage(int pid, const Mapping& mapping) {
  if (mapping.path == kVdso) return OwnVdso();
  if (UniqueFd file = OpenIfSame(mapping.path, mapping); file.valid()) return file;
  // The process may have another root folder.
  UniqueFd file = OpenIfSame(absl::StrCat("/proc/", pid, "/root", mapping.path), mapping);
  if (file.valid()) return file;
  // The file may have been replaced since; /proc/PID/exe still opens the program's old file.
  return OpenIfSame(absl::StrCat("/proc/", pid, "/exe"), mapping);
}

bool IsImage(const Mapping& mapping) {
  return mapping.executable &&
         (mapping.path == kVdso || (mapping.inode != 0 && mapping.path.substr(0, 1) == "/"));
}

}  // namespace

Images::Images() : next_base_(kFirstBase) {
  // Disables debuginfod, so that the network is never used.
  ::unsetenv("DEBUGINFOD_URLS");
  static const Dwfl_Callbacks kCallbacks = {
      .find_elf = [](Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; },
      .find_debuginfo = dwfl_standard_find_debuginfo,
      .section_address = nullptr,
      .debuginfo_path = nullptr,
  };
  ::elf_version(EV_CURRENT);
  dwfl_ = ::dwfl_begin(&kCallbacks);
  ::dwfl_report_begin(dwfl_);
}

Images::~Images() { ::dwfl_end(dwfl_); }

Dwfl* Images::Ready() {
  ::dwfl_report_end(dwfl_, nullptr, nullptr);
  return dwfl_;
}

// Reports the image to libdwfl at a separate address. An image without PIE keeps its linked
// address; a second such program fails, because the place is taken.
bool Images::Place(const std::string& path, bool fixed, Image* image) {
  std::uint64_t first = UINT64_MAX;
  std::uint64_t last = 0;
  for (const Segment& segment : image->segments) {
    first = std::min(first, PageOf(segment.address));
    last = std::max(last, segment.address + segment.size);
  }
  if (last <= first) return false;
  image->base = fixed ? 0 : next_base_ - first;
  if (!fixed) next_base_ = PageOf(next_base_ + (last - first) + 2 * kGapBytes);
  UniqueFd copy(::fcntl(image->file.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return false;
  const std::string name(absl::StripSuffix(path, " (deleted)"));
  if (::dwfl_report_elf(dwfl_, name.c_str(), name.c_str(), copy.get(), image->base, true) ==
      nullptr) {
    return false;
  }
  (void)copy.release();  // now owned by libdwfl
  return true;
}

Images::Image* Images::Open(int pid, const Mapping& mapping) {
  const Key key = {mapping.device_major, mapping.device_minor, mapping.inode, mapping.path};
  const auto [entry, added] = images_.try_emplace(key);
  if (!added) return entry->second.get();
  auto image = std::make_unique<Image>();
  image->file = OpenImage(pid, mapping);
  if (!image->file.valid()) return nullptr;
  Elf* const elf = ::elf_begin(image->file.get(), ELF_C_READ, nullptr);
  GElf_Ehdr header;
  std::size_t count = 0;
  const bool is_elf = elf != nullptr && ::gelf_getehdr(elf, &header) != nullptr &&
                      ::elf_getphdrnum(elf, &count) == 0;
  for (std::size_t i = 0; is_elf && i < count; ++i) {
    GElf_Phdr program;
    if (::gelf_getphdr(elf, static_cast<int>(i), &program) == nullptr) continue;
    if (program.p_type != PT_LOAD) continue;
    image->segments.push_back(
        {program.p_vaddr, program.p_offset, program.p_filesz, (program.p_flags & PF_X) != 0});
  }
  ::elf_end(elf);
  if (is_elf && Place(mapping.path, header.e_type == ET_EXEC, image.get())) {
    entry->second = std::move(image);
  }
  return entry->second.get();
}

std::vector<CodeRange> Images::Add(int pid, const std::vector<Mapping>& maps) {
  std::vector<CodeRange> code;
  for (const Mapping& mapping : maps) {
    if (!IsImage(mapping)) continue;
    const Image* const image = Open(pid, mapping);
    if (image == nullptr) continue;
    for (const Segment& segment : image->segments) {
      if (!segment.executable || PageOf(segment.offset) != mapping.offset) continue;
      const std::uint64_t here = PageOf(segment.address) + image->base;
      code.push_back({mapping.start, mapping.end, here - mapping.start});
      break;
    }
  }
  return code;
}

bool Images::Read(std::uint64_t address, std::uint64_t* word) const {
  for (const auto& [key, image] : images_) {
    if (image == nullptr) continue;
    for (const Segment& segment : image->segments) {
      const std::uint64_t start = segment.address + image->base;
      if (address < start || address - start + sizeof(*word) > segment.size) continue;
      return ::pread(image->file.get(), word, sizeof(*word),
                     static_cast<off_t>(segment.offset + (address - start))) == sizeof(*word);
    }
  }
  return false;
}

}  // namespace ddprun::stacks
