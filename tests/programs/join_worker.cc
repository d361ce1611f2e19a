// A worker that calls ddp::init() and a barrier, and ends: for jobs in which not all ranks can
// join.
//
//   join_worker INIT_TIMEOUT_MS TIMEOUT_MS
#include <ddp/ddp.h>

#include <chrono>
#include <string>

int main(int, char** argv) {
  return ddp::run([&] {
    ddp::Options options;
    options.init_timeout = std::chrono::milliseconds(std::stoi(argv[1]));
    options.timeout = std::chrono::milliseconds(std::stoi(argv[2]));
    const ddp::Context ctx = ddp::init(options);
    ddp::barrier(ctx);
    return 0;
  });
}
