// TcpCounters: the bytes that the TCP connections of this node have carried. A look is one call
// of WorkerWatch::Look(). Nothing is read unless a look asks (Ask()).
//
// Belongs to WorkerWatch and its loop's thread. Another thread reads the counters, because the
// kernel may first load a module from the disk. So a look gets the numbers that the previous
// look has requested.
#ifndef DDPRUN_LAUNCHER_AGENT_TCP_COUNTERS_H_
#define DDPRUN_LAUNCHER_AGENT_TCP_COUNTERS_H_

#include <optional>
#include <utility>

#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "launcher/os/tcp_bytes.h"

namespace ddprun {

class TcpCounters {
 public:
  explicit TcpCounters(EventLoop* loop) : reader_(loop, "ddprun-tcp") {}

  // Begins a look. If nobody asked during the look before, the numbers are too old and are dropped.
  void BeginLook() {
    if (!std::exchange(asked_, false)) newest_.reset();
  }

  // The newest numbers; nullptr: none yet. The first call in a look starts the next reading.
  const TcpBytes* Ask() {
    if (!std::exchange(asked_, true)) Read();
    return newest_ ? &*newest_ : nullptr;
  }

 private:
  void Read() {
    if (std::exchange(reading_, true)) return;
    reader_.Run([] { return ReadTcpBytes(); },
                [this](const TcpBytes& bytes) {
                  reading_ = false;
                  newest_ = bytes;
                });
  }

  bool asked_ = false;  // in this look
  bool reading_ = false;
  std::optional<TcpBytes> newest_;
  OffLoop reader_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_TCP_COUNTERS_H_
