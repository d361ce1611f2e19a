// RendezvousPage: the page of `ddprun rendezvous --http`, with its server.
#ifndef DDPRUN_LAUNCHER_COMMANDS_PAGE_RENDEZVOUS_PAGE_H_
#define DDPRUN_LAUNCHER_COMMANDS_PAGE_RENDEZVOUS_PAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/config/flags/cli.h"
#include "rendezvous/http/page/page_service.h"
#include "rendezvous/http/server/http_server.h"
#include "rendezvous/service/job/event_log.h"
#include "rendezvous/service/operators/metrics_source.h"
#include "rendezvous/service/operators/page_link.h"
#include "rendezvous/service/rendezvous_server.h"

namespace ddprun {

class RendezvousPage {
 public:
  // The page is served when this returns. `server` must outlive this object. `files`: further data
  // for /metrics. Errors: InvalidArgument for the value of a flag, NotFound and similar for a file
  // that cannot be opened, Unavailable if it cannot listen.
  static absl::StatusOr<std::unique_ptr<RendezvousPage>> Start(const HttpConfig& config,
                                                               RendezvousServer* server,
                                                               std::shared_ptr<EventLog> events,
                                                               MetricsSource::Files files);

  // "https://0.0.0.0:29480/"
  std::string url() const;

  // A link whose session can see the jobs of `owner`. Any thread.
  PageLink Open(const std::string& owner);

  // Call it before the RendezvousServer's Shutdown.
  void Shutdown();

 private:
  explicit RendezvousPage(HttpConfig config) : config_(std::move(config)) {}

  const HttpConfig config_;
  std::unique_ptr<MetricsSource> metrics_;
  std::unique_ptr<http::PageService> service_;  // asks metrics_
  std::unique_ptr<http::HttpServer> http_;      // calls service_
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_PAGE_RENDEZVOUS_PAGE_H_
