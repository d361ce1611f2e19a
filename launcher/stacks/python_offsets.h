// The offsets of fields in CPython's structures, for each supported version: 3.11, 3.13 and 3.14.
// For 64-bit builds with a GIL. Any thread.
#ifndef DDPRUN_LAUNCHER_STACKS_PYTHON_OFFSETS_H_
#define DDPRUN_LAUNCHER_STACKS_PYTHON_OFFSETS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun::stacks {

// Copies `size` bytes at `address` of the process; false: cannot be read.
using ReadMemory = std::function<bool(std::uint64_t address, void* to, std::size_t size)>;

struct PythonTextOffsets {
  std::uint64_t length;  // in PyASCIIObject
  std::uint64_t state;
  std::uint64_t ascii;       // the text after PyASCIIObject
  std::uint64_t wide;        // the text after PyCompactUnicodeObject
  std::uint64_t bytes_size;  // in PyBytesObject
  std::uint64_t bytes;
};

struct PythonOffsets {
  std::uint64_t runtime_interpreters;  // in _PyRuntimeState: interpreters.head
  std::uint64_t interpreter_next;      // in PyInterpreterState
  std::uint64_t interpreter_threads;
  std::uint64_t thread_next;  // in PyThreadState
  std::uint64_t thread_native_id;
  std::uint64_t thread_frame;                   // the current frame, or its _PyCFrame
  std::optional<std::uint64_t> cframe_current;  // in _PyCFrame, if the version has one
  std::uint64_t frame_code;                     // in _PyInterpreterFrame
  std::uint64_t frame_previous;
  std::uint64_t frame_instruction;  // the last instruction begun
  // The mark of a call from C into the interpreter's loop: 3.11 marks the called frame (is_entry);
  // later versions put a frame without code after the called frame (owner).
  std::uint64_t frame_entry;
  bool entry_is_a_frame;
  std::uint64_t code_first_line;  // in PyCodeObject
  std::uint64_t code_file;
  std::uint64_t code_name;  // co_qualname: includes the class
  std::uint64_t code_lines;
  std::uint64_t code_instructions;
  PythonTextOffsets text;
};

// Error: the offsets of CPython 3.`minor` are not known.
absl::Status CheckPythonVersion(int minor);

// The offsets of CPython 3.`minor`. `runtime`: the address of _PyRuntime. From 3.13 on CPython
// publishes its offsets there, as _Py_DebugOffsets. Error: CheckPythonVersion(), or
// this structure is missing, is of another version or of the free-threaded build, or has an
// impossible value.
absl::StatusOr<PythonOffsets> FindPythonOffsets(int minor, std::uint64_t runtime,
                                                const ReadMemory& read);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_PYTHON_OFFSETS_H_
