// A worker for tests of warm standbys: begins like ddp::init(), makes a step, and waits until it is
// killed.
//
//     standby_worker FOLDER MODE
//
// After its step a worker makes the file FOLDER/<generation>.<rank> with the lines "pid N",
// "warm yes|no" and its environment. A standby that is about to wait makes the file FOLDER/waits.N;
// N is its pid. MODE:
//     train     as above
//     dies      a standby ends before it waits, with exit code 3
//     loads     a standby makes FOLDER/loads.N, and never begins to wait
//     unable    never reports that it could be a standby; makes FOLDER/started.N at each start
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "worker/contract/control.h"
#include "worker/src/agent/control_client.h"
#include "worker/src/agent/standby.h"

namespace {

namespace control = ddprun::control;
using ddp::internal::ControlClient;

// A reader sees the whole file or no file.
void Write(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  std::ofstream(temporary) << text;
  std::filesystem::rename(temporary, path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const std::string folder = argv[1];
  const std::string mode = argv[2];
  ControlClient& agent = ControlClient::Process();
  const std::string pid = std::to_string(getpid());
  if (mode == "unable") Write(folder + "/started." + pid, "");
  const bool standby = ddp::internal::IsStandby();
  if (standby) {
    const char* const rank = std::getenv("RANK");
    std::cerr << "rank before: " << (rank == nullptr ? "none" : rank) << "\n";
    if (mode == "dies") {
      std::cerr << "no such dataset\n";
      return 3;
    }
    if (mode == "loads") {
      Write(folder + "/loads." + pid, "");
      for (;;) pause();
    }
    std::printf("before\n");  // stays in stdio's buffer
    Write(folder + "/waits." + pid, std::getenv("LOCAL_RANK"));
    ddp::internal::WaitAsStandby(&agent);
  }
  if (mode != "unable") agent.Send(control::kStandby, control::kAble);
  std::printf("after\n");
  std::fflush(stdout);
  std::string text = "pid " + pid + "\nwarm " + (standby ? "yes" : "no") + "\n";
  for (char** entry = environ; *entry != nullptr; ++entry) text += *entry + std::string("\n");
  agent.Send(control::kStep, "1");
  Write(folder + "/" + std::getenv("DDPRUN_GENERATION") + "." + std::getenv("RANK"), text);
  for (;;) pause();
}
