// Reads the Python frames of a held process from its memory. Reads only.
//
// Supports the versions of CPython that python_offsets.h names. For other versions there are only
// native frames, and CopiedProcess::python has the reason.
#ifndef DDPRUN_LAUNCHER_STACKS_PYTHON_FRAMES_H_
#define DDPRUN_LAUNCHER_STACKS_PYTHON_FRAMES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "launcher/stacks/copied_stacks.h"
#include "launcher/stacks/memory_map.h"
#include "launcher/stacks/python_offsets.h"

namespace ddprun::stacks {

// If `process` is a Python program: sets CopiedThread::python_frames of its threads, or
// CopiedProcess::python if this fails. Call it while the process is held, from the thread that
// holds it. `maps`: of `process`.
void CopyPythonFrames(const std::vector<Mapping>& maps, CopiedProcess* process);

// The frames of all threads of all interpreters, by thread, innermost first. `runtime`: the address
// of _PyRuntime. An unexpected value ends a stack or the list of threads. Pure except for `read`.
std::map<pid_t, std::vector<PythonFrame>> ReadPythonFrames(const PythonOffsets& offsets,
                                                           std::uint64_t runtime,
                                                           const ReadMemory& read);

// The line of an instruction, from a code object's location table in the format of CPython 3.11
// (its Objects/locations.md). 0: the instruction has no line, or the table is damaged. Pure.
std::uint32_t PythonLine(std::string_view table, std::uint32_t first_line,
                         std::uint64_t instruction);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_PYTHON_FRAMES_H_
