// The command line of a worker, from the program that the user names. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_COMMAND_LINE_PROGRAM_H_
#define DDPRUN_LAUNCHER_CONFIG_COMMAND_LINE_PROGRAM_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rendezvous/core/messages.h"

namespace ddprun {

enum class ProgramKind {
  kByName,   // a name that ends in .py runs under Python, any other file is executed
  kModule,   // -m: a Python module
  kAsIs,     // --no-python: executed, whatever its name
  kRunPath,  // --run-path: run by Python's runpy.run_path() as __main__, whatever its name
};

// The argv of a worker. `command`, not empty: the program and its arguments. Python runs
// unbuffered, as under torchrun: `python -u train.py ...`, `python -u -m package.train ...`.
// `python`: one word, searched in PATH if it has no slash. `${local_rank}` in arguments is expanded
// later, when a worker is started.
std::vector<std::string> WorkerCommand(const std::vector<std::string>& command, ProgramKind kind,
                                       const std::string& python);

// True if `program`, argv[0] of a worker, has the name of a Python interpreter: python, python3,
// pypy3.10.
bool IsPythonInterpreter(absl::string_view program);

// The index of the program in an interpreter's command line: of a script, of -m or of -c. nullopt:
// no program, or an unknown option.
std::optional<std::size_t> FindPythonProgram(const std::vector<std::string>& argv);

// True if `argv` runs a Python program that loads sitecustomize from PYTHONPATH: it names a
// program, and has none of the options -E, -I and -S.
bool RunsSitecustomize(const std::vector<std::string>& argv);

// The worker's program, for the comparison with other agents of the job. Skips interpreters, shells
// and programs that only start another program (numactl, conda run), with their options. The order
// of the program's own arguments counts.
WorkerProgram ProgramOf(const std::vector<std::string>& argv, const std::string& role);

// True if kByName would run `program` under Python.
bool IsPythonScript(absl::string_view program);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_COMMAND_LINE_PROGRAM_H_
