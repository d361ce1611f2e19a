// A rendezvous that behaves like one of several. It reports whether it leads, and accepts sessions,
// reports and operators only while it leads.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_CLIENT_FAKE_RENDEZVOUS_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_CLIENT_FAKE_RENDEZVOUS_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/operator.grpc.pb.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"

namespace ddprun {

class FakeRendezvous {
 public:
  // Begins as a waiting rendezvous. `port` 0: any free port.
  explicit FakeRendezvous(int port = 0) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&rendezvous_);
    builder.RegisterService(&operator_);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }
  ~FakeRendezvous() { Stop(); }

  // Like the end of a process that is killed.
  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    }
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  // Reports this from now on, on all Follow calls. `role`: 1 leads, 0 waits.
  void Say(std::uint32_t role, std::uint64_t term) {
    const std::lock_guard lock(mutex_);
    leading_.set_role(role);
    leading_.set_term(term);
    leading_.set_cluster(7);
    ++version_;
    changed_.notify_all();
  }
  void Lead(std::uint64_t term) { Say(1, term); }
  void StandBy() { Say(0, 0); }

  int port() const { return port_; }
  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port_); }
  // The peers of all Follow and Session calls, in their order.
  std::vector<std::string> peers() {
    const std::lock_guard lock(mutex_);
    return peers_;
  }
  // Waits until a client has ended a session by cancelling it. False: not within `limit`. A client
  // that closes a session waits for an answer first, and this rendezvous does not answer.
  bool WaitUntilAbandoned(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return abandoned_; });
  }
  // Called before a report is answered. Set it while no report is under way.
  void OnReport(std::function<void()> run) {
    const std::lock_guard lock(mutex_);
    on_report_ = std::move(run);
  }
  int reports() {
    const std::lock_guard lock(mutex_);
    return reports_;
  }

 private:
  class Rendezvous final : public v1::Rendezvous::Service {
   public:
    explicit Rendezvous(FakeRendezvous* fake) : fake_(fake) {}
    grpc::Status Follow(grpc::ServerContext* context, const v1::FollowRequest*,
                        grpc::ServerWriter<v1::Leading>* writer) override {
      fake_->NotePeer(*context);
      std::uint64_t told = 0;
      std::unique_lock lock(fake_->mutex_);
      while (!fake_->stopped_ && !context->IsCancelled()) {
        if (told != fake_->version_) {
          told = fake_->version_;
          writer->Write(fake_->leading_);
        }
        fake_->changed_.wait_for(lock, std::chrono::milliseconds(20));
      }
      return {grpc::StatusCode::UNAVAILABLE, "it ends"};
    }
    grpc::Status Session(
        grpc::ServerContext* context,
        grpc::ServerReaderWriter<v1::RendezvousMessage, v1::AgentMessage>* stream) override {
      fake_->NotePeer(*context);
      if (const grpc::Status closed = fake_->WhyClosed(); !closed.ok()) return closed;
      stream->SendInitialMetadata();
      v1::AgentMessage message;
      while (stream->Read(&message)) {
      }
      std::unique_lock lock(fake_->mutex_);
      const auto gone = [&] { return fake_->stopped_ || context->IsCancelled(); };
      while (!gone()) fake_->changed_.wait_for(lock, std::chrono::milliseconds(20));
      fake_->abandoned_ = !fake_->stopped_;
      fake_->changed_.notify_all();
      return grpc::Status::OK;
    }
    grpc::Status ReportGone(grpc::ServerContext*, const v1::GoneReport*,
                            v1::GoneReceived*) override {
      if (const grpc::Status closed = fake_->WhyClosed(); !closed.ok()) return closed;
      std::unique_lock lock(fake_->mutex_);
      const std::function<void()> run = fake_->on_report_;
      lock.unlock();
      if (run) run();
      lock.lock();
      ++fake_->reports_;
      return grpc::Status::OK;
    }

   private:
    FakeRendezvous* const fake_;
  };
  class Operator final : public v1::Operator::Service {
   public:
    explicit Operator(FakeRendezvous* fake) : fake_(fake) {}
    grpc::Status Status(grpc::ServerContext*, const v1::StatusRequest*,
                        grpc::ServerWriter<v1::StatusPiece>* writer) override {
      if (const grpc::Status closed = fake_->WhyClosed(); !closed.ok()) return closed;
      v1::StatusPiece piece;
      piece.set_text(absl::StrCat("of ", fake_->port_));
      writer->Write(piece);
      return grpc::Status::OK;
    }

   private:
    FakeRendezvous* const fake_;
  };

  void NotePeer(const grpc::ServerContext& context) {
    const std::lock_guard lock(mutex_);
    peers_.push_back(context.peer());
  }
  grpc::Status WhyClosed() {
    const std::lock_guard lock(mutex_);
    if (leading_.role() == 1) return grpc::Status::OK;
    return {grpc::StatusCode::UNAVAILABLE, "this rendezvous stands by: the leader is at h2:29400"};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  v1::Leading leading_;
  std::uint64_t version_ = 1;
  bool stopped_ = false;
  std::vector<std::string> peers_;
  bool abandoned_ = false;
  int reports_ = 0;
  std::function<void()> on_report_;
  Rendezvous rendezvous_{this};
  Operator operator_{this};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_CLIENT_FAKE_RENDEZVOUS_H_
