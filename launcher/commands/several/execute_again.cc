#include "launcher/commands/several/execute_again.h"

#include <linux/close_range.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ddprun {
namespace {

constexpr char kOusted[] = "DDPRUN_RENDEZVOUS_OUSTED";

std::vector<std::string> Arguments() {
  std::ifstream file("/proc/self/cmdline");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> arguments = absl::StrSplit(text, '\0');
  arguments.pop_back();  // each ends with a zero
  return arguments;
}

}  // namespace

absl::Status ExecuteAgain(int ousted) {
  std::vector<std::string> arguments = Arguments();
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  setenv(kOusted, absl::StrCat(ousted).c_str(), 1);
  // Most are CLOEXEC by themselves; a library may have forgotten one.
  syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
  execv("/proc/self/exe", pointers.data());
  return absl::UnavailableError(
      absl::StrCat("cannot execute itself again: ", std::generic_category().message(errno)));
}

int OustedBefore() {
  const char* const text = getenv(kOusted);
  int ousted = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &ousted)) ousted = 0;
  unsetenv(kOusted);
  return ousted;
}

}  // namespace ddprun
