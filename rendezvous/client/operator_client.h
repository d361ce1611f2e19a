// Sends an operator's questions and orders to a rendezvous.
//
// For one thread of a command, which may block. Starts gRPC in the process. If there are several
// rendezvous, each question goes to the leader, which is looked up each time.
//
// Errors are sentences for people. These name the endpoint: Unavailable (not reachable, it went
// away, or nobody leads), Unauthenticated and PermissionDenied (one side refused the other),
// Unimplemented (an older rendezvous). These have the rendezvous's own text: NotFound,
// FailedPrecondition, InvalidArgument, ResourceExhausted.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_OPERATOR_CLIENT_H_
#define DDPRUN_RENDEZVOUS_CLIENT_OPERATOR_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
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
    std::vector<RendezvousPlace> places;  // one rendezvous, or several with one leader
    std::chrono::milliseconds timeout = kDefaultAnswerTimeout;  // for each answer
    // When a stop is requested, pending and later questions and streams end at once. Their error is
    // Cancelled; during the search for a leader it is Unavailable.
    std::stop_token stop{};
  };

  explicit OperatorClient(Options options);
  ~OperatorClient();
  OperatorClient(const OperatorClient&) = delete;
  OperatorClient& operator=(const OperatorClient&) = delete;

  bool several() const { return options_.places.size() > 1; }
  // The endpoint that was asked last.
  const std::string& endpoint() const;

  // The JSON document of docs/jobs.md. `job` may be empty: all jobs.
  absl::StatusOr<std::string> Status(const std::string& job);
  // Returns the rendezvous's answer, a text for people.
  absl::StatusOr<std::string> StopJob(const std::string& job, bool save);
  absl::StatusOr<std::string> DrainNode(const std::string& host, const std::string& job);

  // The stacks of all ranks of a job, now.
  struct JobStacks {
    StackTree tree;
    std::vector<std::string> missing;  // hosts that sent no usable stacks
  };
  absl::StatusOr<JobStacks> Stacks(const std::string& job);

  // A link to the page. It signs in the person who opens it within a minute. `job` may be empty.
  struct Page {
    std::string host;  // empty: the host by which the rendezvous is reached
    int port = 0;
    std::string code;
    std::string certificate_sha256;  // empty: without TLS
    bool self_made = false;          // the certificate is self-signed
  };
  absl::StatusOr<Page> OpenPage(const std::string& job);

  struct EventsWanted {
    std::string job{};  // empty: all
    bool follow = false;
    std::int64_t since_ms = 0;  // Unix time
    bool only_new = false;
  };

  // A stream of lines of the history.
  class Events {
   public:
    virtual ~Events() = default;
    // Blocks. False: the stream has ended, and Finish says why.
    virtual bool Next(std::string* line) = 0;
    virtual absl::Status Finish() = 0;
    // From any thread: ends Next.
    virtual void Cancel() = 0;
  };

  // After it has returned, the stream misses no new event. The stream must not outlive the client.
  absl::StatusOr<std::unique_ptr<Events>> Follow(const EventsWanted& wanted);

  struct LogsWanted {
    std::string job{};
    std::vector<int> ranks{};  // none: as in LogsRequest (operator.proto)
    std::optional<int> generation{};
    LogStreams streams = LogStreams::kBoth;
    LogSpan span{};  // only `lines` and `since` are used
    bool follow = false;
    bool soon = false;  // Finish() returns Unavailable if the answer is incomplete after the
                        // timeout
  };
  // One of three: the next bytes of a file, the end of a file, or a line about the parts that
  // follow.
  struct LogPart {
    LogSource source;
    std::string text{};
    std::string about{};  // for people
    bool end = false;
    std::string note{};  // with `end`: why the file is incomplete; empty: it is complete
  };

  // A stream of the workers' output.
  class Logs {
   public:
    virtual ~Logs() = default;
    // Blocks. False: the stream has ended, and Finish says why.
    virtual bool Next(LogPart* part) = 0;
    virtual absl::Status Finish() = 0;
  };

  // The stream must not outlive the client.
  absl::StatusOr<std::unique_ptr<Logs>> ReadLogs(const LogsWanted& wanted);

 private:
  class CancelOnStop;
  struct Grpc;
  class EventStream;
  class LogStreamOfCall;
  const Options options_;
  const std::unique_ptr<Grpc> grpc_;  // keeps gRPC out of this header
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_OPERATOR_CLIENT_H_
