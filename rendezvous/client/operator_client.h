// Asks a rendezvous what an operator wants to know, and tells it what he wants.
//
// For one thread of a command, which may block. Starts gRPC in the process. Of several rendezvous
// the one that leads is asked, found anew for each question.
//
// Errors, as sentences for people that name the endpoint: Unavailable (not reachable, or it went
// away), Unauthenticated and PermissionDenied (refused), NotFound and FailedPrecondition (what the
// rendezvous says to that), InvalidArgument, ResourceExhausted, Unimplemented (an older version).
#ifndef DDPRUN_RENDEZVOUS_CLIENT_OPERATOR_CLIENT_H_
#define DDPRUN_RENDEZVOUS_CLIENT_OPERATOR_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/client/rendezvous_place.h"
#include "rendezvous/core/limits.h"
#include "rendezvous/core/messages/logs.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

class OperatorClient {
 public:
  struct Options {
    std::vector<RendezvousPlace> places;  // one, or several that stand for one another
    std::chrono::milliseconds timeout = kDefaultAnswerTimeout;  // for each answer
  };

  explicit OperatorClient(Options options);
  ~OperatorClient();
  OperatorClient(const OperatorClient&) = delete;
  OperatorClient& operator=(const OperatorClient&) = delete;

  bool several() const { return options_.places.size() > 1; }
  // Of the rendezvous that was asked last.
  const std::string& endpoint() const;

  // The JSON document; `job` may be empty: all.
  absl::StatusOr<std::string> Status(const std::string& job);
  // What the rendezvous says to it.
  absl::StatusOr<std::string> StopJob(const std::string& job, bool save);
  absl::StatusOr<std::string> DrainNode(const std::string& host, const std::string& job);

  // Where the ranks of a job are in their code, now.
  struct JobStacks {
    StackTree tree;
    std::vector<std::string> missing;  // hosts whose agents did not answer in time
  };
  absl::StatusOr<JobStacks> Stacks(const std::string& job);

  // A link to the page, which signs in whoever opens it within a minute. `job` may be empty.
  struct Page {
    std::string host;  // empty: wherever the rendezvous is reached
    int port = 0;
    std::string code;
    std::string certificate_sha256;  // empty: without TLS
    bool self_made = false;          // no authority vouches for the certificate
  };
  absl::StatusOr<Page> OpenPage(const std::string& job);

  struct EventsWanted {
    std::string job{};  // empty: all
    bool follow = false;
    std::int64_t since_ms = 0;  // Unix time
    bool only_new = false;
  };

  // Lines of history, as they come.
  class Events {
   public:
    virtual ~Events() = default;
    // Blocks. False: there are no more, and Finish says why.
    virtual bool Next(std::string* line) = 0;
    virtual absl::Status Finish() = 0;
    // From any thread: ends Next.
    virtual void Cancel() = 0;
  };

  // Returns when nothing that happens from now on will be missed. The stream must not outlive the
  // client.
  absl::StatusOr<std::unique_ptr<Events>> Follow(const EventsWanted& wanted);

  struct LogsWanted {
    std::string job{};
    std::vector<int> ranks{};  // none: all
    std::optional<int> generation{};
    LogStreams streams = LogStreams::kBoth;
    LogSpan span{};  // its lines and since
    bool follow = false;
    bool soon = false;  // Finish says Unavailable where the answer is not whole after the timeout
  };
  // Of one file: the next bytes of it, or that nothing more comes.
  struct LogPart {
    LogSource source;
    std::string text{};
    bool end = false;
    std::string note{};  // at the end: why it is not whole; empty: it is
  };

  // What workers wrote, as it comes.
  class Logs {
   public:
    virtual ~Logs() = default;
    // Blocks. False: there is no more, and Finish says why.
    virtual bool Next(LogPart* part) = 0;
    virtual absl::Status Finish() = 0;
  };

  // The stream must not outlive the client.
  absl::StatusOr<std::unique_ptr<Logs>> ReadLogs(const LogsWanted& wanted);

 private:
  struct Grpc;
  class EventStream;
  class LogStreamOfCall;
  const Options options_;
  const std::unique_ptr<Grpc> grpc_;  // keeps gRPC out of this header
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_OPERATOR_CLIENT_H_
