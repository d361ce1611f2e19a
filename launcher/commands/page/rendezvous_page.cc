#include "launcher/commands/page/rendezvous_page.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/config/values.h"
#include "launcher/log.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/tokens.h"

namespace ddprun {
namespace {

// The limit for unsent data of one viewer: enough for the history and the state of a large job.
constexpr std::size_t kMostUnsentBytes = 4 << 20;

http::LogService LogsOf(JobLoop* loop) {
  return {[loop](std::string owner, LogRequest request, std::shared_ptr<LogReader> reader) {
            const LogReadId id = loop->NewLogReadId();
            loop->ReadLogs(id, std::move(owner), std::move(request), std::move(reader));
            return id;
          },
          [loop](LogReadId id, std::size_t bytes) { loop->AcknowledgeLogs(id, bytes); },
          [loop](LogReadId id) { loop->CancelLogs(id); }};
}

bool IsEveryAddress(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousPage>> RendezvousPage::Start(
    const HttpConfig& config, RendezvousServer* server, std::shared_ptr<EventLog> events,
    MetricsSource::Files files) {
  std::unique_ptr<RendezvousPage> page(new RendezvousPage(config));
  http::Gate::Options gate;
  gate.is_private = config.is_private;
  gate.random = &auth::RandomBytes;
  if (!config.read_token_file.empty()) {
    auto tokens = auth::LoadTokens(config.read_token_file);
    if (!tokens.ok()) return tokens.status();
    gate.readers = *std::move(tokens);
  }
  const auto describe = [server] { return server->Describe(); };
  const auto refused = [server](std::string_view reason, const std::string& detail) {
    server->CountRefusal(reason, detail);
  };
  page->metrics_ = std::make_unique<MetricsSource>(&server->loop(), describe, std::move(files));
  page->service_ = std::make_unique<http::PageService>(http::PageService::Options{
      &server->loop(), std::move(events), describe, std::move(gate),
      [metrics = page->metrics_.get()](std::optional<std::string> owner,
                                       std::function<void(std::string)> done) {
        metrics->Get(owner, std::move(done));
      },
      LogsOf(&server->loop()), refused});
  http::ServerOptions options;
  options.listen = FormatEndpoint({config.host, config.port});
  options.certificate_file = config.certificate_file;
  options.key_file = config.key_file;
  options.hosts = config.names;
  options.max_unsent = kMostUnsentBytes;
  options.refused = refused;
  options.log = [](const std::string& text) { LogInfo(text); };
  auto started = http::HttpServer::Start(
      std::move(options), [service = page->service_.get()](
                              http::Request request, std::shared_ptr<http::Responder> responder) {
        service->Serve(std::move(request), std::move(responder));
      });
  if (!started.ok()) return started.status();
  page->http_ = *std::move(started);
  return page;
}

std::string RendezvousPage::url() const {
  return absl::StrCat(http_->tls() ? "https://" : "http://",
                      FormatEndpoint({config_.host, http_->port()}), "/");
}

PageLink RendezvousPage::Open(const std::string& owner) {
  PageLink link;
  // A configured name comes first: browsers know the page by it.
  link.host = !config_.names.empty()         ? config_.names.front()
              : IsEveryAddress(config_.host) ? ""
                                             : config_.host;
  link.port = http_->port();
  link.code = service_->NewCode(owner);
  link.certificate_sha256 = http_->certificate_sha256();
  link.self_made = http_->tls() && config_.certificate_file.empty();
  return link;
}

void RendezvousPage::Shutdown() {
  service_->Shutdown();
  http_->Shutdown();
}

}  // namespace ddprun
