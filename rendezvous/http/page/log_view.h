// LogView: a worker's log as server-sent events, for one viewer. It acknowledges text only when the
// kernel has taken the text from the stream, and the agent waits for the acknowledgement. So a
// browser that reads slowly slows down the reading of the log file.
//
// Thread-safe. Owned by the log service and by the stream's callbacks until both are done.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_LOG_VIEW_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_LOG_VIEW_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/core/types.h"
#include "rendezvous/http/page/pace.h"
#include "rendezvous/http/server/message.h"
#include "rendezvous/http/server/responder.h"
#include "rendezvous/service/job/log_request.h"

namespace ddprun::http {

// The log service: ReadLogs, AcknowledgeLogs and CancelLogs of the JobLoop (log_request.h).
struct LogService {
  std::function<LogReadId(std::string owner, LogRequest request, std::shared_ptr<LogReader> reader)>
      read;
  std::function<void(LogReadId id, std::size_t bytes)> acknowledge;
  std::function<void(LogReadId id)> cancel;
  // Called with the reason if a log is not opened because too many logs are open. May be empty.
  std::function<void(const std::string& why)> full{};
};

// Parses "?job=J&rank=R&generation=G&stream=stdout|stderr&tail=N&follow=1". Error: InvalidArgument,
// for people.
absl::StatusOr<LogRequest> LogRequestOf(const Request& request);

class LogView final : public LogReader, public std::enable_shared_from_this<LogView> {
 public:
  // Answers with a stream. `service` outlives it.
  static std::shared_ptr<LogView> Make(const LogService* service, Responder* responder);
  // Starts reading. Once.
  void Read(const std::string& owner, LogRequest request);

  // Ends the reading, and tells the viewer why.
  void End(const std::string& why);
  // Ends the reading of a viewer who does not read: at once, and without a message.
  void Cut();
  // The reading has ended, or the viewer has left.
  bool is_over();
  bool IsTooSlow(TimePoint now);

  LogView(const LogService* service, std::shared_ptr<Stream> stream)
      : service_(service), stream_(std::move(stream)) {}

  void OnText(const LogSource& source, std::string text) override;
  void OnAbout(const LogSource& source, std::string about) override;
  void OnSourceEnd(const LogSource& source, std::string note) override;
  void OnEnd(absl::Status why) override;

 private:
  void SetId(LogReadId id);
  // False: the reading was already over.
  bool Cancel();
  // The last event.
  void Say(const std::string& end);
  void OnSent();
  void OnClose();

  const LogService* const service_;
  const std::shared_ptr<Stream> stream_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<LogReadId> id_;  // set once ReadLogs has returned
  std::size_t unacknowledged_ = 0;
  std::string notes_;  // about the files, for the last event
  Pace pace_;
  bool over_ = false;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_LOG_VIEW_H_
