// ddprun page.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/commands/operator.h"
#include "launcher/config/values.h"
#include "launcher/text/page_link.h"

namespace ddprun {
namespace {

// A page that listens on every address is reached by the same host as the rendezvous.
std::string HostOfEndpoint(const std::string& endpoint) {
  const auto parsed = ParseEndpoint(endpoint, 1, std::nullopt);
  return parsed.has_value() ? parsed->host : "127.0.0.1";  // a Unix socket
}

}  // namespace

int ShowPage(const OperatorCommand& command, OperatorClient& client) {
  const auto page = client.OpenPage(command.job);
  if (!page.ok()) return FailOperator(command, page.status());
  const bool tls = !page->certificate_sha256.empty();
  const std::string host = page->host.empty() ? HostOfEndpoint(client.endpoint()) : page->host;
  std::string text =
      absl::StrCat(PageUrl(tls, FormatEndpoint({host, page->port}), page->code, command.job), "\n");
  if (command.verbosity >= 0) {
    absl::StrAppend(&text, "The link signs in whoever opens it: once, within 60 s.\n");
  }
  if (tls && page->self_made) {
    absl::StrAppend(&text,
                    "The rendezvous made its certificate itself. The browser asks whether to trust "
                    "it; its SHA-256 is\n",
                    Fingerprint(page->certificate_sha256), "\n");
  }
  PrintOut(text);
  return 0;
}

}  // namespace ddprun
