// The cost of the rendezvous for a job on one node: a server and a client in one process, over a
// Unix socket, from the start of the server to its shutdown. `ddprun --nproc-per-node 2 /bin/true`
// pays for this on top of its workers.
//
//     build/bin/session_bench          prints the milliseconds from the start to each event
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/service/rendezvous_server.h"

namespace ddprun {
namespace {

class Clock {
 public:
  void Print(const char* what) const {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    std::printf("%-28s %7.2f ms\n", what,
                std::chrono::duration<double, std::milli>(elapsed).count());
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int Run(const std::string& folder) {
  const Clock clock;
  const std::string endpoint = "unix:" + folder + "/rdzv";
  absl::StatusOr<std::unique_ptr<RendezvousServer>> server = RendezvousServer::Start(
      {.listen = endpoint, .log = [](std::string_view, std::string_view) {}});
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  clock.Print("server listens");

  std::promise<Header> assigned;
  std::promise<void> started;
  std::promise<void> finished;
  GrpcRendezvousClient client({.endpoint = endpoint});
  client.Open([&](RendezvousClient::Event event) {
    if (auto* const lost = std::get_if<RendezvousClient::Lost>(&event)) {
      std::fprintf(stderr, "%s\n", lost->reason.c_str());
      std::exit(1);
    }
    auto* const received = std::get_if<RendezvousClient::Received>(&event);
    if (received == nullptr) return;
    if (std::holds_alternative<Assignment>(received->message)) {
      assigned.set_value(received->header);
    } else if (std::holds_alternative<Start>(received->message)) {
      started.set_value();
    } else if (std::holds_alternative<Finished>(received->message)) {
      finished.set_value();
    }
  });
  clock.Print("client opened");
  Join join;
  join.job.join_timeout = std::chrono::seconds(10);
  join.node = {"bench", "127.0.0.1", 1};
  join.offered_port = 29500;
  client.Send({"bench", 0, Generation{-1}, AgentId{1}}, join);
  const Header header = assigned.get_future().get();
  clock.Print("assigned");
  client.Send(header, AssignmentAck{});
  started.get_future().get();
  clock.Print("started (one round trip)");
  client.Send(header, WorkerExited{});
  finished.get_future().get();
  clock.Print("finished (one round trip)");
  client.Close();
  clock.Print("client closed");
  (*server)->Shutdown();
  clock.Print("server shut down");
  return 0;
}

}  // namespace
}  // namespace ddprun

int main() {
  char folder[] = "/tmp/session_bench.XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    std::perror("mkdtemp");
    return 1;
  }
  const int result = ddprun::Run(folder);
  rmdir(folder);
  return result;
}
