// How many bytes can still be written to a file system in memory. The result is the free space of
// the file system, or less if the memory limit of a cgroup (version 2) that contains this process
// leaves less: a cgroup counts such files as memory. In a container the root of the cgroup
// namespace is usually the container's own cgroup; on a host the root has no limit. Cached file
// data that was not used lately (inactive_file) is no used memory, as in Kubernetes' working set:
// the kernel frees it first.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_MEMORY_ROOM_H_
#define DDPRUN_WORKER_CONTRACT_MEMORY_ROOM_H_

#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace ddprun {

struct MemoryPlace {
  std::string root = "/dev/shm";
  std::string cgroups = "/sys/fs/cgroup";
  std::string self_cgroup = "/proc/self/cgroup";
};

namespace internal {

// The number in the first line of a file. nullopt: no number (for example "max"), or no file.
inline std::optional<std::uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  std::uint64_t number = 0;
  const char* const last = line.data() + line.size();
  const auto [end, error] = std::from_chars(line.data(), last, number);
  if (error != std::errc() || end != last) return std::nullopt;
  return number;
}

// The value of `name` in a file of lines "NAME VALUE"; 0: it is not there.
inline std::uint64_t ReadStat(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string found;
  for (std::uint64_t value = 0; file >> found >> value;) {
    if (found == name) return value;
  }
  return 0;
}

// "0::/user.slice/job" → "/user.slice/job". Empty if the host has no cgroups of version 2.
inline std::string OwnCgroup(const MemoryPlace& place) {
  std::ifstream file(place.self_cgroup);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "";
}

}  // namespace internal

// In bytes. 0: no such file system.
inline std::uint64_t MemoryRoom(const MemoryPlace& place) {
  struct statvfs file_system;
  if (::statvfs(place.root.c_str(), &file_system) != 0) return 0;
  std::uint64_t room = static_cast<std::uint64_t>(file_system.f_bavail) * file_system.f_frsize;
  for (std::filesystem::path group = internal::OwnCgroup(place); !group.empty();
       group = group.has_relative_path() ? group.parent_path() : std::filesystem::path()) {
    const std::string folder = place.cgroups + group.native();
    const auto limit = internal::ReadNumber(folder + "/memory.max");
    const auto used = internal::ReadNumber(folder + "/memory.current");
    if (!limit || !used) continue;
    const auto cached = internal::ReadStat(folder + "/memory.stat", "inactive_file");
    room = std::min(room, *limit - std::min(*limit, *used - std::min(*used, cached)));
  }
  return room;
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_MEMORY_ROOM_H_
