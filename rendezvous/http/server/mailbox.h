// Mailbox: runs functions on the server's thread. It may outlive the server, because some callers
// do. Internal to this folder.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_MAILBOX_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_MAILBOX_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace ddprun::http {

class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  // `io` must live until Close.
  explicit Mailbox(boost::asio::io_context* io) : io_(io) {}

  // Functions run in the order of the calls; Asio alone does not keep that order between threads.
  // False: Close was called before, and the function is dropped.
  bool Post(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    if (io_ == nullptr) return false;
    waiting_.push_back(std::move(function));
    if (waiting_.size() == 1) boost::asio::post(*io_, [self = shared_from_this()] { self->Run(); });
    return true;
  }

  void Close() {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    std::deque<std::function<void()>> now = std::exchange(waiting_, {});
    lock.unlock();
    for (const auto& function : now) function();
  }

  std::mutex mutex_;
  // Guarded by mutex_.
  boost::asio::io_context* io_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_MAILBOX_H_
