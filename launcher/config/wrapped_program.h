// Finds the program of a worker's command line behind shells and programs that only start another
// one (env, numactl, conda run, ...). Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_WRAPPED_PROGRAM_H_
#define DDPRUN_LAUNCHER_CONFIG_WRAPPED_PROGRAM_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// If the first word of `argv` is a known program that only starts another one: the index at which
// the other command line begins. nullopt: it is not such a program, it starts nothing, or it has an
// unknown option, so that the end of the options is unknown.
std::optional<std::size_t> FindWrapped(const std::vector<std::string>& argv);

// The index of the program in a shell's command line: of a script, or of the option -c. nullopt:
// argv[0] is not a shell, there is no program, or an option is unknown.
std::optional<std::size_t> FindShellProgram(const std::vector<std::string>& argv);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_WRAPPED_PROGRAM_H_
