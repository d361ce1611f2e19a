#include "launcher/stacks/python_offsets.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace ddprun::stacks {
namespace {

// _Py_DebugOffsets is an array of 64-bit words, grouped by structure. Each group begins with the
// size of the structure. These words have the same place in every version that has them.
enum Word : std::size_t {
  kCookie = 0,
  kVersion = 1,
  kFreeThreaded = 2,
  kRuntimeInterpreters = 5,
  kInterpreterNext = 8,
  kInterpreterThreads = 9,
};

// Where the other groups begin. Later versions insert words at the end of a group, so the words
// that are used here keep their places in it.
struct Published {
  int minor;
  std::size_t thread;
  std::size_t frame;
  std::size_t code;
  std::size_t bytes;
  std::size_t text;
};

constexpr Published kPublished[] = {
    {.minor = 13, .thread = 19, .frame = 28, .code = 34, .bytes = 64, .text = 67},
    {.minor = 14, .thread = 22, .frame = 31, .code = 39, .bytes = 74, .text = 77},
};
constexpr int kTable = 11;  // the supported version that publishes no offsets
constexpr std::size_t kTextWords = 4;

constexpr std::string_view kCookieText = "xdebugpy";
constexpr std::uint64_t kMajorVersion = 0x0300;  // in the upper half of PY_VERSION_HEX
// The largest structure, _PyRuntimeState, has about 300 KiB.
constexpr std::uint64_t kMostOffset = std::uint64_t{1} << 24;
// PyCompactUnicodeObject is a PyASCIIObject and two words.
constexpr std::uint64_t kCompactBytes = 16;

const Published* FindPublished(int minor) {
  const auto* const found =
      std::find_if(std::begin(kPublished), std::end(kPublished),
                   [minor](const Published& published) { return published.minor == minor; });
  return found != std::end(kPublished) ? found : nullptr;
}

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

PythonOffsets FromWords(const Published& at, const std::vector<std::uint64_t>& words) {
  return {
      .runtime_interpreters = words[kRuntimeInterpreters],
      .interpreter_next = words[kInterpreterNext],
      .interpreter_threads = words[kInterpreterThreads],
      .thread_next = words[at.thread + 2],
      .thread_native_id = words[at.thread + 6],
      .thread_frame = words[at.thread + 4],
      .cframe_current = std::nullopt,
      .frame_code = words[at.frame + 2],
      .frame_previous = words[at.frame + 1],
      .frame_instruction = words[at.frame + 3],
      .frame_entry = words[at.frame + 5],
      .entry_is_a_frame = true,
      .code_first_line = words[at.code + 5],
      .code_file = words[at.code + 1],
      .code_name = words[at.code + 3],
      .code_lines = words[at.code + 4],
      .code_instructions = words[at.code + 9],
      .text = {.length = words[at.text + 2],
               .state = words[at.text + 1],
               .ascii = words[at.text + 3],
               .wide = words[at.text + 3] + kCompactBytes,
               .bytes_size = words[at.bytes + 1],
               .bytes = words[at.bytes + 2]},
  };
}

}  // namespace

absl::Status CheckPythonVersion(int minor) {
  if (minor == kTable || FindPublished(minor) != nullptr) return absl::OkStatus();
  return absl::UnimplementedError("ddprun knows those of 3.11, 3.13 and 3.14");
}

absl::StatusOr<PythonOffsets> FindPythonOffsets(int minor, std::uint64_t runtime,
                                                const ReadMemory& read) {
  if (minor == kTable) return kPython311;
  const Published* const at = FindPublished(minor);
  if (at == nullptr) return CheckPythonVersion(minor);
  std::vector<std::uint64_t> words(at->text + kTextWords);
  if (!read(runtime, words.data(), words.size() * sizeof(words[0])) ||
      std::memcmp(&words[kCookie], kCookieText.data(), kCookieText.size()) != 0 ||
      words[kVersion] >> 16 != (kMajorVersion | static_cast<std::uint64_t>(minor)) ||
      std::any_of(words.begin() + kRuntimeInterpreters, words.end(),
                  [](std::uint64_t offset) { return offset > kMostOffset; })) {
    return absl::DataLossError("its _Py_DebugOffsets are missing or invalid");
  }
  // This build has other structures, and instructions that each thread copies.
  if (words[kFreeThreaded] != 0) {
    return absl::UnimplementedError("ddprun does not know those of the free-threaded build");
  }
  return FromWords(*at, words);
}

}  // namespace ddprun::stacks
