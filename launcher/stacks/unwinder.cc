#include "launcher/stacks/unwinder.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/stacks/images.h"
#include "launcher/stacks/memory_map.h"

namespace ddprun::stacks {
namespace {

// Further frames are not unwound; WithoutMiddle() keeps fewer.
constexpr std::size_t kMostFrames = 512;
constexpr std::size_t kMostInlined = 16;
// The stack pointer's DWARF number.
#ifdef __x86_64__
constexpr unsigned kStackPointer = 7;
#else
constexpr unsigned kStackPointer = 31;  // of aarch64
#endif

std::string Demangled(const char* symbol) {
  if (symbol == nullptr) return "";
  // "read@@GLIBC_2.2.5": drop the version, which does not help people.
  const std::string without_version(symbol, std::strcspn(symbol, "@"));
  const char* const name = without_version.c_str();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && readable != nullptr ? readable.get() : name;
}

std::string BaseName(const char* path) {
  if (path == nullptr) return "";
  const char* const slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// The name of a function instance, from its own entry or from the inlined function's entry.
std::string NameOf(Dwarf_Die* function) {
  for (const unsigned attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    Dwarf_Attribute found;
    if (const char* const name =
            ::dwarf_formstring(::dwarf_attr_integrate(function, attribute, &found))) {
      return Demangled(name);
    }
  }
  const char* const name = ::dwarf_diename(function);
  return name != nullptr ? name : "";
}

// Sets the place from which an inlined function was called.
void TakeCallPlace(Dwarf_Die* inlined, Dwarf_Die* unit, StackFrame* caller) {
  Dwarf_Attribute attribute;
  Dwarf_Word line = 0;
  Dwarf_Word file = 0;
  Dwarf_Files* files = nullptr;
  caller->file.clear();
  caller->line = 0;
  if (::dwarf_formudata(::dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) == 0) {
    caller->line = static_cast<std::uint32_t>(line);
  }
  if (::dwarf_formudata(::dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) == 0 &&
      ::dwarf_getsrcfiles(unit, &files, nullptr) == 0) {
    if (const char* const path = ::dwarf_filesrc(files, file, nullptr, nullptr)) {
      caller->file = path;
    }
  }
}

// The frames of one code address, innermost first: the functions inlined there, then the function
// itself.
class Symbols {
 public:
  explicit Symbols(Dwfl* dwfl) : dwfl_(dwfl) {}

  const std::vector<StackFrame>& At(Dwarf_Addr address) {
    const auto [entry, added] = known_.try_emplace(address);
    if (added) entry->second = Look(address);
    return entry->second;
  }

 private:
  std::vector<StackFrame> Look(Dwarf_Addr address) const {
    StackFrame frame;
    Dwfl_Module* const module = ::dwfl_addrmodule(dwfl_, address);
    if (module == nullptr) return {frame};
    frame.image = BaseName(
        ::dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    GElf_Off offset = 0;
    GElf_Sym symbol;
    frame.function = Demangled(
        ::dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr));
    if (Dwfl_Line* const line = ::dwfl_module_getsrc(module, address)) {
      int number = 0;
      if (const char* const file =
              ::dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr)) {
        frame.file = file;
        frame.line = static_cast<std::uint32_t>(std::max(number, 0));
      }
    }
    return WithInlined(module, address, std::move(frame));
  }

  static std::vector<StackFrame> WithInlined(Dwfl_Module* module, Dwarf_Addr address,
                                             StackFrame frame) {
    Dwarf_Addr bias = 0;
    Dwarf_Die* const unit = ::dwfl_module_addrdie(module, address, &bias);
    if (unit == nullptr) return {std::move(frame)};
    Dwarf_Die* lexical = nullptr;
    if (::dwarf_getscopes(unit, address - bias, &lexical) <= 0) return {std::move(frame)};
    Dwarf_Die innermost = lexical[0];
    std::free(lexical);
    Dwarf_Die* scopes = nullptr;
    const int count = ::dwarf_getscopes_die(&innermost, &scopes);
    std::vector<StackFrame> frames;
    for (int i = 0; i < count && frames.size() < kMostInlined; ++i) {
      const int tag = ::dwarf_tag(&scopes[i]);
      if (tag == DW_TAG_subprogram) {
        if (frame.function.empty()) frame.function = NameOf(&scopes[i]);
        break;
      }
      if (tag != DW_TAG_inlined_subroutine) continue;
      StackFrame inlined = frame;
      inlined.function = NameOf(&scopes[i]);
      frames.push_back(std::move(inlined));
      TakeCallPlace(&scopes[i], unit, &frame);
    }
    std::free(scopes);
    frames.push_back(std::move(frame));
    return frames;
  }

  Dwfl* dwfl_;
  std::unordered_map<Dwarf_Addr, std::vector<StackFrame>> known_;
};

// The state for libdwfl's callbacks while it unwinds one thread.
struct Current {
  const Images* images = nullptr;
  const std::vector<CodeRange>* code = nullptr;
  const CopiedThread* thread = nullptr;
  Symbols* symbols = nullptr;
  UnwoundThread* result = nullptr;

  // Moves a code address of the process to the image's place here; leaves other values unchanged.
  std::uint64_t Moved(std::uint64_t value) const {
    const auto after =
        std::upper_bound(code->begin(), code->end(), value,
                         [](std::uint64_t v, const CodeRange& range) { return v < range.start; });
    if (after == code->begin()) return value;
    const CodeRange& range = *(after - 1);
    // A function that never returns may end with a call: then the return address is the range's
    // end.
    return value <= range.end ? value + range.shift : value;
  }

  bool Read(std::uint64_t address, std::uint64_t* word) const {
    const std::string& stack = thread->stack;
    if (address >= thread->stack_start && stack.size() >= sizeof(*word) &&
        address - thread->stack_start <= stack.size() - sizeof(*word)) {
      std::memcpy(word, stack.data() + (address - thread->stack_start), sizeof(*word));
      *word = Moved(*word);
      return true;
    }
    return images->Read(Moved(address), word);
  }
};

pid_t NextThread(Dwfl*, void* argument, void** thread) {
  if (*thread != nullptr) return 0;
  *thread = argument;
  return static_cast<Current*>(argument)->thread->tid;
}

bool GetThread(Dwfl*, pid_t, void* argument, void** thread) {
  *thread = argument;
  return true;
}

bool ReadMemory(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* argument) {
  return static_cast<const Current*>(argument)->Read(address, result);
}

bool SetRegisters(Dwfl_Thread* thread, void* argument) {
  const Current& current = *static_cast<const Current*>(argument);
  std::vector<Dwarf_Word> registers(current.thread->registers.begin(),
                                    current.thread->registers.end());
  if (registers.empty()) return false;
  registers.back() = current.Moved(registers.back());
  ::dwfl_thread_state_register_pc(thread, registers.back());
#ifndef __x86_64__
  registers.pop_back();  // on other machines the code address is not among the numbered registers
#endif
  return ::dwfl_thread_state_registers(thread, 0, static_cast<unsigned>(registers.size()),
                                       registers.data());
}

int TakeFrame(Dwfl_Frame* state, void* argument) {
  const Current& current = *static_cast<const Current*>(argument);
  Dwarf_Addr address = 0;
  bool interrupted_here = false;
  if (!::dwfl_frame_pc(state, &address, &interrupted_here)) return DWARF_CB_ABORT;
  // The call is before its return address.
  if (!interrupted_here) --address;
  Dwarf_Word stack_pointer = 0;
  if (::dwfl_frame_reg(state, kStackPointer, &stack_pointer) != 0) stack_pointer = 0;
  for (const StackFrame& frame : current.symbols->At(address)) {
    current.result->frames.push_back(frame);
    current.result->stack_pointers.push_back(stack_pointer);
  }
  return current.result->frames.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

constexpr Dwfl_Thread_Callbacks kThreadCallbacks = {
    .next_thread = NextThread,
    .get_thread = GetThread,
    .memory_read = ReadMemory,
    .set_initial_registers = SetRegisters,
    .detach = nullptr,
    .thread_detach = nullptr,
};

// True for the first functions of a thread, which have no caller.
bool BeginsAThread(const StackFrame& frame) {
  static constexpr std::string_view kNames[] = {"_start",  "clone3",   "clone",
                                                "__clone", "__clone3", "thread_start"};
  return std::find(std::begin(kNames), std::end(kNames), frame.function) != std::end(kNames);
}

// Processes that can share one Images.
class Group {
 public:
  void Add(const CopiedProcess& process) {
    members_.push_back({&process, images_.Add(process.pid, ParseMaps(process.maps))});
  }

  void Prepare() {
    Dwfl* const dwfl = images_.Ready();
    symbols_ = std::make_unique<Symbols>(dwfl);
    current_.images = &images_;
    current_.symbols = symbols_.get();
    dwfl_ = dwfl;
    // Without an explicit ELF file libdwfl takes the machine type from the first image.
    attached_ = ::dwfl_attach_state(dwfl, nullptr, 1, &kThreadCallbacks, &current_);
    if (!attached_) why_not_ = ::dwfl_errmsg(-1);
  }

  void Unwind(bool main_threads, const std::function<void(const UnwoundThread&)>& unwound) {
    for (const Member& member : members_) {
      for (const CopiedThread& thread : member.process->threads) {
        if (!thread.copied.ok() || (thread.tid == member.process->pid) != main_threads) continue;
        unwound(Unwind(member, thread));
      }
    }
  }

 private:
  struct Member {
    const CopiedProcess* process;
    std::vector<CodeRange> code;
  };

  UnwoundThread Unwind(const Member& member, const CopiedThread& thread) {
    UnwoundThread result;
    result.tid = thread.tid;
    if (!attached_) {
      result.error = why_not_;
      return result;
    }
    current_.code = &member.code;
    current_.thread = &thread;
    current_.result = &result;
    const bool failed = ::dwfl_getthread_frames(dwfl_, thread.tid, TakeFrame, &current_) == -1;
    result.complete = !result.frames.empty() && BeginsAThread(result.frames.back());
    if (result.complete) return result;
    if (result.frames.size() >= kMostFrames) {
      result.error = absl::StrCat("more than ", kMostFrames, " frames");
    } else if (!thread.stack_is_whole) {
      result.error = absl::StrCat("only ", thread.stack.size(), " bytes of its stack were copied");
    } else if (failed) {
      result.error = ::dwfl_errmsg(-1);
    }
    return result;
  }

  Images images_;
  std::unique_ptr<Symbols> symbols_;
  std::vector<Member> members_;
  Current current_;
  Dwfl* dwfl_ = nullptr;
  bool attached_ = false;
  std::string why_not_;
};

}  // namespace

void Unwind(const std::vector<CopiedProcess>& processes,
            const std::function<void(const UnwoundThread&)>& unwound) {
  // Grouped by program, because two programs may need the same addresses.
  std::map<std::string, Group> groups;
  for (const CopiedProcess& process : processes) {
    if (!process.status.ok()) continue;
    std::string program;
    for (const Mapping& mapping : ParseMaps(process.maps)) {
      if (!mapping.executable || mapping.inode == 0) continue;
      program = absl::StrCat(mapping.device_major, ":", mapping.device_minor, ":", mapping.inode);
      break;
    }
    groups[program].Add(process);
  }
  for (auto& [program, group] : groups) group.Prepare();
  for (const bool main_threads : {true, false}) {
    for (auto& [program, group] : groups) group.Unwind(main_threads, unwound);
  }
}

}  // namespace ddprun::stacks
