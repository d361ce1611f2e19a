#include "launcher/stacks/python_offsets.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace ddprun::stacks {
namespace {

// _Py_DebugOffsets of 3.13 is an array of 64-bit words. Each structure begins with its size.
// Indexes of unneeded words are left out here.
enum Word : std::size_t {
  kCookie = 0,
  kVersion = 1,
  kRuntimeInterpreters = 5,
  kInterpreterNext = 8,
  kInterpreterThreads = 9,
  kThreadNext = 21,
  kThreadFrame = 23,
  kThreadNativeId = 25,
  kFramePrevious = 29,
  kFrameExecutable = 30,
  kFrameInstruction = 31,
  kFrameOwner = 33,
  kCodeFile = 35,
  kCodeQualifiedName = 37,
  kCodeLines = 38,
  kCodeFirstLine = 39,
  kCodeInstructions = 43,
  kBytesSize = 65,
  kBytes = 66,
  kTextState = 68,
  kTextLength = 69,
  kAsciiObjectSize = 70,
  kWords = 71,
};

constexpr std::string_view kCookieText = "xdebugpy";
constexpr std::uint64_t kVersion313 = 0x030D;  // the upper half of PY_VERSION_HEX
// The largest structure, _PyRuntimeState, has about 300 KiB.
constexpr std::uint64_t kMostOffset = std::uint64_t{1} << 24;
// PyCompactUnicodeObject is a PyASCIIObject and two words.
constexpr std::uint64_t kCompactBytes = 16;

}  // namespace

constexpr PythonOffsets kPython311 = {
    .runtime_interpreters = 40,
    .interpreter_next = 0,
    .interpreter_threads = 16,
    .thread_next = 8,
    .thread_native_id = 160,
    .thread_frame = 56,
    .cframe_current = 8,
    .frame_code = 32,
    .frame_previous = 48,
    .frame_instruction = 56,
    .frame_entry = 68,
    .entry_is_a_frame = false,
    .code_first_line = 72,
    .code_file = 112,
    .code_name = 128,
    .code_lines = 136,
    .code_instructions = 184,
    .text = {.length = 16, .state = 32, .ascii = 48, .wide = 72, .bytes_size = 16, .bytes = 32},
};

std::optional<PythonOffsets> ReadPython313Offsets(std::uint64_t runtime, const ReadMemory& read) {
  std::array<std::uint64_t, kWords> words;
  if (!read(runtime, words.data(), sizeof(words)) ||
      std::memcmp(&words[kCookie], kCookieText.data(), kCookieText.size()) != 0 ||
      words[kVersion] >> 16 != kVersion313 ||
      std::any_of(words.begin() + kRuntimeInterpreters, words.end(),
                  [](std::uint64_t offset) { return offset > kMostOffset; })) {
    return std::nullopt;
  }
  return PythonOffsets{
      .runtime_interpreters = words[kRuntimeInterpreters],
      .interpreter_next = words[kInterpreterNext],
      .interpreter_threads = words[kInterpreterThreads],
      .thread_next = words[kThreadNext],
      .thread_native_id = words[kThreadNativeId],
      .thread_frame = words[kThreadFrame],
      .cframe_current = std::nullopt,
      .frame_code = words[kFrameExecutable],
      .frame_previous = words[kFramePrevious],
      .frame_instruction = words[kFrameInstruction],
      .frame_entry = words[kFrameOwner],
      .entry_is_a_frame = true,
      .code_first_line = words[kCodeFirstLine],
      .code_file = words[kCodeFile],
      .code_name = words[kCodeQualifiedName],
      .code_lines = words[kCodeLines],
      .code_instructions = words[kCodeInstructions],
      .text = {.length = words[kTextLength],
               .state = words[kTextState],
               .ascii = words[kAsciiObjectSize],
               .wide = words[kAsciiObjectSize] + kCompactBytes,
               .bytes_size = words[kBytesSize],
               .bytes = words[kBytes]},
  };
}

}  // namespace ddprun::stacks
