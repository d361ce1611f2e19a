// Where the fields of CPython's structures are, for each version whose frames are known. For 64-bit
// builds. Any thread.
#ifndef DDPRUN_LAUNCHER_STACKS_PYTHON_OFFSETS_H_
#define DDPRUN_LAUNCHER_STACKS_PYTHON_OFFSETS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace ddprun::stacks {

// Copies `size` bytes of the process at `address`; false where they cannot be read.
using ReadMemory = std::function<bool(std::uint64_t address, void* to, std::size_t size)>;

struct PythonTextOffsets {
  std::uint64_t length;  // of PyASCIIObject
  std::uint64_t state;
  std::uint64_t ascii;       // behind it
  std::uint64_t wide;        // behind PyCompactUnicodeObject
  std::uint64_t bytes_size;  // of PyBytesObject
  std::uint64_t bytes;
};

struct PythonOffsets {
  std::uint64_t runtime_interpreters;  // of _PyRuntimeState: interpreters.head
  std::uint64_t interpreter_next;      // of PyInterpreterState
  std::uint64_t interpreter_threads;
  std::uint64_t thread_next;  // of PyThreadState
  std::uint64_t thread_native_id;
  std::uint64_t thread_frame;                   // the current frame, or the _PyCFrame that has it
  std::optional<std::uint64_t> cframe_current;  // of _PyCFrame, where there is one
  std::uint64_t frame_code;                     // of _PyInterpreterFrame
  std::uint64_t frame_previous;
  std::uint64_t frame_instruction;  // the last one that was begun
  // Where C has called the interpreter's loop: 3.11 marks the frame that was called (is_entry);
  // later versions put a frame without code behind it (owner).
  std::uint64_t frame_entry;
  bool entry_is_a_frame;
  std::uint64_t code_first_line;  // of PyCodeObject
  std::uint64_t code_file;
  std::uint64_t code_name;  // co_qualname: with the class
  std::uint64_t code_lines;
  std::uint64_t code_instructions;
  PythonTextOffsets text;
};

extern const PythonOffsets kPython311;

// The offsets that CPython 3.13 publishes in _Py_DebugOffsets, at the start of _PyRuntime. nullopt:
// the structure is missing, of another version, or has an impossible value.
std::optional<PythonOffsets> ReadPython313Offsets(std::uint64_t runtime, const ReadMemory& read);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_PYTHON_OFFSETS_H_
