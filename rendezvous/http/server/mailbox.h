// Mailbox: runs functions on the server's thread, for whoever may outlive the server. Internal to
// this folder.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_MAILBOX_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_MAILBOX_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <utility>

namespace ddprun::http {

class Mailbox {
 public:
  // `io` must live until Close.
  explicit Mailbox(boost::asio::io_context* io) : io_(io) {}

  // False, and the function is gone, after Close.
  template <class Function>
  bool Post(Function function) {
    const std::lock_guard lock(mutex_);
    if (io_ == nullptr) return false;
    boost::asio::post(*io_, std::move(function));
    return true;
  }

  void Close() {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
  }

 private:
  std::mutex mutex_;
  boost::asio::io_context* io_;  // guarded by mutex_
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_MAILBOX_H_
