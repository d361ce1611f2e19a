#include "launcher/os/process/process_title.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

namespace ddprun {
namespace {

// proc(5): these fields of /proc/PID/stat have the start and end address of argv. The program's
// name, field 2, may contain anything and ends at the last parenthesis.
constexpr int kFieldAfterName = 3;
constexpr int kArgStartField = 48;

}  // namespace

void SetProcessTitle(const std::string& title) {
  std::ifstream file("/proc/self/stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = kFieldAfterName; field < kArgStartField; ++field) fields >> skipped;
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  fields >> start >> end;
  if (!fields || start == 0 || end <= start + 1) return;
  char* const arguments =
      reinterpret_cast<char*>(start);  // NOLINT: the kernel says that it is ours
  const std::size_t room = end - start;
  std::memset(arguments, 0, room);
  std::memcpy(arguments, title.data(), std::min(title.size(), room - 1));
}

}  // namespace ddprun
