// A worker that writes the result of ddp::init() to one JSON file. Its first argument is the folder
// of this file. With a second argument, rank 1 fails in the first attempt, so that the launcher
// starts all workers again.
#include <ddp/ddp.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

int main(int argc, char** argv) {
  return ddp::run([&] {
    const ddp::Context ctx = ddp::init();
    const std::int64_t sum = ddp::all_reduce_sum(ctx, std::int64_t{ctx.rank()} + 1);
    if (argc > 2 && ctx.restart_count() == 0 && ctx.rank() == 1) {
      throw std::runtime_error("the first attempt is to fail");
    }
    const nlohmann::json document = {{"rank", ctx.rank()},
                                     {"world_size", ctx.world_size()},
                                     {"local_rank", ctx.local_rank()},
                                     {"local_world_size", ctx.local_world_size()},
                                     {"restart_count", ctx.restart_count()},
                                     {"device", ctx.device().str()},
                                     {"backend", ctx.backend()},
                                     {"sum", sum}};
    ddp::barrier(ctx);  // if rank 1 fails, no rank has written a file
    std::ofstream(std::string(argv[1]) + "/rank" + std::to_string(ctx.rank()) + ".json")
        << document;
    return 0;
  });
}
