// force_exit PID CODE: makes another process call exit_group(CODE), as if by itself, at any point
// of its code. For faults of the kind "exits with code 1" in programs that have no such switch.
//
// Stops the process's first thread with ptrace, and writes a syscall instruction at the program's
// entry point, where no thread runs any more. Then the thread continues there, with its registers
// set for exit_group. x86-64 only. Needs root, or must be the process's parent.
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

long Trace(__ptrace_request request, pid_t pid, void* address, void* data, const char* what) {
  const long result = ptrace(request, pid, address, data);
  if (result == -1) {
    std::perror(what);
    std::exit(1);
  }
  return result;
}

unsigned long EntryPoint(const char* pid) {
  const std::string path = std::string("/proc/") + pid + "/auxv";
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    std::perror(path.c_str());
    std::exit(1);
  }
  unsigned long entry[2] = {};
  while (std::fread(entry, sizeof entry, 1, file) == 1 && entry[0] != AT_ENTRY) continue;
  std::fclose(file);
  return entry[1];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: force_exit PID CODE\n");
    return 64;
  }
  const pid_t pid = std::atoi(argv[1]);
  Trace(PTRACE_ATTACH, pid, nullptr, nullptr, "attach");
  int status = 0;
  waitpid(pid, &status, 0);
  const unsigned long entry = EntryPoint(argv[1]);
  user_regs_struct registers{};
  Trace(PTRACE_GETREGS, pid, nullptr, &registers, "read registers");
  constexpr long kSyscallInstruction = 0x050f;  // little endian: 0f 05
  Trace(PTRACE_POKETEXT, pid, reinterpret_cast<void*>(entry),
        reinterpret_cast<void*>(kSyscallInstruction), "write the instruction");
  registers.rip = entry;
  registers.rax = 231;         // exit_group
  registers.orig_rax = -1ULL;  // do not restart the interrupted system call
  registers.rdi = static_cast<unsigned long long>(std::atoi(argv[2]));
  Trace(PTRACE_SETREGS, pid, nullptr, &registers, "write registers");
  Trace(PTRACE_DETACH, pid, nullptr, nullptr, "detach");
}
