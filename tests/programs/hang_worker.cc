// A training of 20 steps of 50 ms in which one rank hangs. The ranks wait for each other in each
// step, by files, and report their steps on the control socket. In generation 0 rank 1 never comes
// back from reading the data of step 5. Tests look for the functions' names in stacks.
//
//   hang_worker FOLDER         rank 1 hangs
//   hang_worker FOLDER none    no rank hangs, and no rank waits for others: each makes steps until
//                              the file FOLDER/end exists
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#define KEPT extern "C" __attribute__((noinline, used))

namespace {

volatile int g_kept = 0;  // written after each call, so that no call is a tail call

int Number(const char* variable) { return std::atoi(std::getenv(variable)); }

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string Mark(const std::string& folder, int step, int rank) {
  return folder + "/" + std::getenv("DDPRUN_GENERATION") + "." + std::to_string(step) + "." +
         std::to_string(rank);
}

}  // namespace

KEPT void ReadTheNextShard(bool hangs) {
  while (hangs) ::pause();
  g_kept = 1;
}

KEPT void WaitForThePeers(const std::string& folder, int step) {
  std::ofstream(Mark(folder, step, Number("RANK"))).put('1');
  for (int rank = 0; rank < Number("WORLD_SIZE"); ++rank) {
    while (!Exists(Mark(folder, step, rank))) ::usleep(5000);
  }
  g_kept = 2;
}

KEPT void TellTheStep(int agent, int step) {
  const std::string message = "STEP=" + std::to_string(step);
  if (::send(agent, message.data(), message.size(), 0) < 0) std::abort();
  g_kept = 3;
}

KEPT void Train(int agent, const std::string& folder, bool for_ever) {
  const bool hangs = !for_ever && Number("RANK") == 1 && Number("DDPRUN_GENERATION") == 0;
  for (int step = 0; for_ever ? !Exists(folder + "/end") : step < 20; ++step) {
    ReadTheNextShard(hangs && step == 5);
    if (!for_ever) WaitForThePeers(folder, step);
    TellTheStep(agent, step);
    ::usleep(50'000);
  }
  g_kept = 4;
}

int main(int argc, char** argv) {
  const int agent = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, std::getenv("DDPRUN_CONTROL_SOCKET"), sizeof name.sun_path - 1);
  if (agent < 0 || ::connect(agent, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) return 2;
  Train(agent, argv[1], argc > 2);
}
