// What is executed for a worker when the user names a program. Pure.
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
  kByName,   // a name that ends in .py runs under Python, anything else is executed as it is
  kModule,   // -m: the name of a Python module
  kAsIs,     // --no-python: executed as it is, whatever its name
  kRunPath,  // --run-path: whatever its name, run by Python's runpy.run_path() as __main__
};

// The argv of a worker for the program `command[0]` with the arguments that follow it; `command`
// is not empty. Python runs unbuffered, as under torchrun: `python -u train.py ...`,
// `python -u -m package.train ...`. `python` is one word, found on PATH when it has no slash.
// `${local_rank}` in arguments is left alone: it is expanded when a worker is started.
std::vector<std::string> WorkerCommand(const std::vector<std::string>& command, ProgramKind kind,
                                       const std::string& python);

// Whether argv[0] of a worker is a Python interpreter, by its name: python, python3, pypy3.10.
bool IsPythonInterpreter(absl::string_view program);

// Where an interpreter's command line `argv` names its program: the index of a script, of -m or of
// -c. nullopt: it names none, or it has an option that is not known here.
std::optional<std::size_t> FindPythonProgram(const std::vector<std::string>& argv);

// Whether `argv` is a Python program whose interpreter runs a sitecustomize of PYTHONPATH: it names
// a program, and none of the options -E, -I and -S.
bool RunsSitecustomize(const std::vector<std::string>& argv);

// What a worker with this argv runs, as other agents of the job compare it with theirs. An
// interpreter, a shell and a program that only starts another one (numactl, conda run) do not
// count, nor do their options; the order of the program's own arguments does.
WorkerProgram ProgramOf(const std::vector<std::string>& argv, const std::string& role);

// Whether kByName would run `program` under Python.
bool IsPythonScript(absl::string_view program);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_COMMAND_LINE_PROGRAM_H_
