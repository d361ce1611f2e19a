// What a worker's command line runs, behind interpreters, shells and programs that only start
// another one (env, numactl, conda run, ...). Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_WRAPPED_PROGRAM_H_
#define DDPRUN_LAUNCHER_CONFIG_WRAPPED_PROGRAM_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// The command line behind the first word of `argv`, where that is a program of the table that only
// starts another one: the index at which it begins. nullopt: it is none, it starts nothing, or it
// has an option that the table does not know, so that nobody can tell where the options end.
std::optional<std::size_t> FindWrapped(const std::vector<std::string>& argv);

// Where a shell's command line `argv` names its program: the index of a script, or of the option
// -c. nullopt: argv[0] is no shell, it names none, or it has an option that is not known here.
std::optional<std::size_t> FindShellProgram(const std::vector<std::string>& argv);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_WRAPPED_PROGRAM_H_
