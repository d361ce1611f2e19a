// Serves torch's store as rank 0's agent does, on a free port or on the port of its argument, until
// stdin ends. First prints the port. Writes to stderr why it disconnects clients.
#include "launcher/os/store_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "launcher/os/descriptor_limit.h"
#include "launcher/os/port_holder.h"

int main(int argc, char** argv) {
  int wanted = 0;
  if (argc > 2 ||
      (argc == 2 && (!absl::SimpleAtoi(argv[1], &wanted) || wanted < 0 || wanted > 65535))) {
    std::fprintf(stderr, "usage: store_server [PORT]\n");
    return 64;
  }
  ddprun::RaiseDescriptorLimit();
  auto port = ddprun::PortHolder::Bind("", wanted);
  if (!port.ok()) {
    std::fprintf(stderr, "%s\n", std::string(port.status().message()).c_str());
    return 1;
  }
  const int number = port->port();
  auto server = ddprun::StoreServer::Start(port->Take(), {.on_refused = [](const std::string& why) {
                                             std::fprintf(stderr, "refused: %s\n", why.c_str());
                                           }});
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  std::printf("%d\n", number);
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
