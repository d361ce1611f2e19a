// Tells whether this machine has two physical cores. Two CPUs may be threads of one core.
#ifndef DDPRUN_TESTS_SUPPORT_TWO_CORES_H_
#define DDPRUN_TESTS_SUPPORT_TWO_CORES_H_

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

namespace ddprun {

inline bool HasTwoCores() {
  std::set<std::string> cores;  // each core is named by the list of its CPUs
  std::error_code error;
  for (std::filesystem::directory_iterator it("/sys/devices/system/cpu", error), end;
       !error && it != end; it.increment(error)) {
    std::ifstream file(it->path() / "topology/thread_siblings_list");
    if (std::string cpus; std::getline(file, cpus)) cores.insert(cpus);
  }
  return cores.size() >= 2;
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_TWO_CORES_H_
