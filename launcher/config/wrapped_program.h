// Finds the program in a worker's command line if shells or wrappers start it. A wrapper only
// starts another program (env, numactl, conda run, ...). Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_WRAPPED_PROGRAM_H_
#define DDPRUN_LAUNCHER_CONFIG_WRAPPED_PROGRAM_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// If the first word of `argv` is a known wrapper: the index at which the other command line begins.
// nullopt: the first word is no known wrapper, or the wrapper starts no program, or it has an
// unknown option. After an unknown option, the end of the options cannot be found.
std::optional<std::size_t> FindWrapped(const std::vector<std::string>& argv);

// The index of the program in a shell's command line: of the script, or of the option -c. nullopt:
// argv[0] is not a shell, or the shell reads its program from stdin.
std::optional<std::size_t> FindShellProgram(const std::vector<std::string>& argv);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_WRAPPED_PROGRAM_H_
