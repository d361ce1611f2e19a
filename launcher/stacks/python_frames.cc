#include "launcher/stacks/python_frames.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "launcher/stacks/elf_section.h"

namespace ddprun::stacks {
namespace {

constexpr std::size_t kMostPythonFrames = 256;  // per thread
constexpr std::size_t kMostThreadStates = 4096;
constexpr std::size_t kMostInterpreters = 16;
constexpr std::size_t kMostTableBytes = 1 << 18;

// The lowest value of `owner` for a frame without code, which stands for C, since 3.13.
constexpr char kOwnedByC = 3;
// Since 3.14 the lowest bits of some references are tags. In an object's address they are 0.
constexpr std::uint64_t kReferenceTags = 3;

void AppendUtf8(std::uint32_t letter, std::string* text) {
  if (letter < 0x80) {
    *text += static_cast<char>(letter);
  } else if (letter < 0x800) {
    *text += static_cast<char>(0xC0 | letter >> 6);
    *text += static_cast<char>(0x80 | (letter & 0x3F));
  } else if (letter < 0x10000) {
    *text += static_cast<char>(0xE0 | letter >> 12);
    *text += static_cast<char>(0x80 | (letter >> 6 & 0x3F));
    *text += static_cast<char>(0x80 | (letter & 0x3F));
  } else {
    *text += static_cast<char>(0xF0 | (letter >> 18 & 7));
    *text += static_cast<char>(0x80 | (letter >> 12 & 0x3F));
    *text += static_cast<char>(0x80 | (letter >> 6 & 0x3F));
    *text += static_cast<char>(0x80 | (letter & 0x3F));
  }
}

// Reads the structures of one process's interpreters. Unexpected data reads as empty.
class PythonMemory {
 public:
  // Both must outlive this object.
  PythonMemory(const ReadMemory& read, const PythonOffsets& offsets) : read_(read), at_(offsets) {}

  // The frames of all threads, by thread id.
  std::map<pid_t, std::vector<PythonFrame>> Frames(std::uint64_t runtime) {
    std::map<pid_t, std::vector<PythonFrame>> frames;
    std::size_t threads = 0;
    std::uint64_t interpreter = Word(runtime + at_.runtime_interpreters);
    for (std::size_t i = 0; interpreter != 0 && i < kMostInterpreters; ++i) {
      std::uint64_t thread = Word(interpreter + at_.interpreter_threads);
      for (; thread != 0 && threads < kMostThreadStates; ++threads) {
        const auto tid = static_cast<pid_t>(Word(thread + at_.thread_native_id));
        std::vector<PythonFrame> stack = Stack(thread);
        if (!stack.empty()) frames[tid] = std::move(stack);
        thread = Word(thread + at_.thread_next);
      }
      interpreter = Word(interpreter + at_.interpreter_next);
    }
    return frames;
  }

 private:
  struct Code {
    std::string name;
    std::string file;
    std::string lines;
    std::uint32_t first_line = 0;
  };

  bool Read(std::uint64_t address, void* to, std::size_t size) const {
    return size == 0 || read_(address, to, size);
  }

  std::uint64_t Word(std::uint64_t address) const {
    std::uint64_t word = 0;
    return Read(address, &word, sizeof(word)) ? word : 0;
  }

  std::string Text(std::uint64_t object) const {
    std::uint32_t state = 0;
    if (!Read(object + at_.text.state, &state, sizeof(state))) return "";
    const std::uint32_t kind = state >> 2 & 7;  // bytes per character
    const bool compact = (state >> 5 & 1) != 0;
    const bool ascii = (state >> 6 & 1) != 0;
    if (!compact || (kind != 1 && kind != 2 && kind != 4)) return "";
    const std::uint64_t length =
        std::min<std::uint64_t>(Word(object + at_.text.length), kMaxStackNameBytes);
    std::string letters(length * kind, '\0');
    if (!Read(object + (ascii ? at_.text.ascii : at_.text.wide), letters.data(), letters.size())) {
      return "";
    }
    if (ascii) return letters;
    std::string text;
    for (std::size_t i = 0; i < length; ++i) {
      std::uint32_t letter = 0;
      std::memcpy(&letter, letters.data() + i * kind, kind);
      AppendUtf8(letter, &text);
    }
    return text;
  }

  std::string Bytes(std::uint64_t object) const {
    const std::uint64_t size = Word(object + at_.text.bytes_size);
    if (size > kMostTableBytes) return "";
    std::string bytes(size, '\0');
    return Read(object + at_.text.bytes, bytes.data(), bytes.size()) ? bytes : "";
  }

  const Code& CodeAt(std::uint64_t object) {
    const auto [entry, added] = codes_.try_emplace(object);
    Code& code = entry->second;
    if (!added) return code;
    code.name = Text(Word(object + at_.code_name));
    code.file = Text(Word(object + at_.code_file));
    code.lines = Bytes(Word(object + at_.code_lines));
    Read(object + at_.code_first_line, &code.first_line, sizeof(code.first_line));
    return code;
  }

  char Byte(std::uint64_t address) const {
    char byte = 0;
    return Read(address, &byte, 1) ? byte : '\0';
  }

  std::vector<PythonFrame> Stack(std::uint64_t thread) {
    std::vector<PythonFrame> stack;
    std::uint64_t frame = Word(thread + at_.thread_frame);
    if (at_.cframe_current.has_value()) frame = Word(frame + *at_.cframe_current);
    for (std::size_t i = 0; frame != 0 && i < kMostPythonFrames; ++i) {
      const char entry = Byte(frame + at_.frame_entry);
      if (at_.entry_is_a_frame && entry >= kOwnedByC) {
        if (!stack.empty()) {
          stack.back().entered_from_c = true;
          stack.back().loop = frame;  // a local variable of the loop's function
        }
      } else {
        std::optional<StackFrame> shown = FrameAt(frame);
        if (!shown.has_value()) break;
        stack.push_back({*std::move(shown), !at_.entry_is_a_frame && entry != 0, 0});
      }
      frame = Word(frame + at_.frame_previous);
    }
    return stack;
  }

  std::optional<StackFrame> FrameAt(std::uint64_t frame) {
    const std::uint64_t code_at = Word(frame + at_.frame_code) & ~kReferenceTags;
    const Code& code = CodeAt(code_at);
    if (code.name.empty() || code.file.empty()) return std::nullopt;
    const std::uint64_t first = code_at + at_.code_instructions;
    const std::uint64_t at = Word(frame + at_.frame_instruction);
    // A frame that has not begun points before its first instruction.
    const std::uint32_t line =
        at < first ? code.first_line : PythonLine(code.lines, code.first_line, (at - first) / 2);
    return StackFrame{code.name, code.file, line, "python"};
  }

  const ReadMemory& read_;
  const PythonOffsets& at_;
  std::map<std::uint64_t, Code> codes_;
};

// Returns 11 for ".../python3.11" and ".../libpython3.11.so.1.0"; nullopt: no interpreter.
std::optional<int> PythonMinor(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (name.starts_with("lib")) name.remove_prefix(3);
  if (!name.starts_with("python3.")) return std::nullopt;
  name.remove_prefix(std::strlen("python3."));
  const std::string_view digits = name.substr(0, name.find_first_not_of("0123456789"));
  int minor;
  if (!absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &minor)) {
    return std::nullopt;
  }
  return minor;
}

std::string NotShown(int minor, const absl::Status& why) {
  return absl::StrCat("Python 3.", minor,
                      " frames are not shown, only native ones: ", why.message());
}

// Takes a number in six-bit parts, the lowest first.
std::optional<std::uint32_t> TakeVarint(std::string_view* table) {
  std::uint32_t value = 0;
  for (unsigned shift = 0; shift < 30; shift += 6) {
    if (table->empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(table->front());
    table->remove_prefix(1);
    value |= (byte & 0x3FU) << shift;
    if ((byte & 0x40) == 0) return value;
  }
  return std::nullopt;
}

}  // namespace

std::uint32_t PythonLine(std::string_view table, std::uint32_t first_line,
                         std::uint64_t instruction) {
  constexpr unsigned kNone = 15;
  constexpr unsigned kLong = 14;
  constexpr unsigned kNoColumn = 13;
  constexpr unsigned kOneLine = 10;
  std::int64_t line = first_line;
  std::uint64_t next = 0;
  while (!table.empty()) {
    const auto first = static_cast<unsigned char>(table.front());
    table.remove_prefix(1);
    if ((first & 0x80) == 0) return 0;
    const unsigned code = first >> 3 & 15;
    if (code == kLong || code == kNoColumn) {
      const auto delta = TakeVarint(&table);
      if (!delta.has_value()) return 0;
      line += (*delta & 1) != 0 ? -std::int64_t{*delta >> 1} : std::int64_t{*delta >> 1};
    } else if (code >= kOneLine && code < kNoColumn) {
      line += code - kOneLine;
    }
    next += (first & 7) + 1;
    if (instruction < next) {
      return code == kNone || line < 0 ? 0 : static_cast<std::uint32_t>(line);
    }
    // Skip the columns: the next entry begins with a byte above 127.
    while (!table.empty() && (static_cast<unsigned char>(table.front()) & 0x80) == 0) {
      table.remove_prefix(1);
    }
  }
  return 0;
}

std::map<pid_t, std::vector<PythonFrame>> ReadPythonFrames(const PythonOffsets& offsets,
                                                           std::uint64_t runtime,
                                                           const ReadMemory& read) {
  return PythonMemory(read, offsets).Frames(runtime);
}

void CopyPythonFrames(const std::vector<Mapping>& maps, CopiedProcess* process) {
  const ReadMemory read = [pid = process->pid](std::uint64_t address, void* to, std::size_t size) {
    iovec here{to, size};
    iovec there{reinterpret_cast<void*>(address), size};
    return ::process_vm_readv(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(size);
  };
  for (const Mapping& mapping : maps) {
    if (mapping.inode == 0 || mapping.offset != 0) continue;
    const std::optional<int> minor = PythonMinor(mapping.path);
    if (!minor.has_value()) continue;
    if (const absl::Status known = CheckPythonVersion(*minor); !known.ok()) {
      process->python = NotShown(*minor, known);
      continue;
    }
    std::optional<ElfSection> runtime = FindElfSection(mapping.path, mapping.start, ".PyRuntime");
    if (!runtime.has_value()) {
      runtime = FindElfSection(absl::StrCat("/proc/", process->pid, "/root", mapping.path),
                               mapping.start, ".PyRuntime");
    }
    if (!runtime.has_value()) continue;
    const absl::StatusOr<PythonOffsets> offsets = FindPythonOffsets(*minor, runtime->address, read);
    if (!offsets.ok()) {
      process->python = NotShown(*minor, offsets.status());
      continue;
    }
    std::map<pid_t, std::vector<PythonFrame>> frames =
        ReadPythonFrames(*offsets, runtime->address, read);
    for (CopiedThread& thread : process->threads) {
      if (thread.copied.ok()) thread.python_frames = std::move(frames[thread.tid]);
    }
    process->python.clear();
    return;
  }
}

}  // namespace ddprun::stacks
