// The command line of `ddprun rendezvous`.
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/config/etcd/etcd_options.h"
#include "launcher/config/flags/run_options.h"
#include "launcher/config/flags/subcommands.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr absl::string_view kRendezvousUsage =
    "Runs the rendezvous. There the agents of a job's nodes meet and get their ranks. One "
    "rendezvous\n"
    "serves many jobs.\n"
    "\n"
    "  ddprun rendezvous --listen HOST:PORT [OPTIONS]\n"
    "\n";

class RendezvousOptions {
 public:
  RendezvousOptions(const FlagReading& reading, const Host& host)
      : reading_(reading), host_(host) {}

  Command Make() {
    for (const std::string& argument : reading_.rest) {
      errors_.push_back(
          absl::StrCat("rendezvous: expected options only (found ", Quoted(argument), ")"));
    }
    if (std::string conflict = VerbosityConflict(reading_); !conflict.empty()) {
      errors_.push_back(std::move(conflict));
    }
    TakeAddress();
    TakeEnd();
    TakeHttp();
    command_.etcd = TakeEtcd(reading_, host_, &errors_);
    if (!command_.etcd.endpoints.empty()) CheckSeveral();
    if (!errors_.empty()) return UsageError(errors_);
    TakeFiles();
    command_.credentials = Credentials(reading_, host_);
    command_.insecure = reading_.IsOn("insecure");
    command_.verbosity = Verbosity(reading_);
    return std::move(command_);
  }

 private:
  void TakeAddress() {
    const GivenFlag* const listen = reading_.Find("listen");
    const std::string value = listen == nullptr ? "" : listen->value;
    const auto endpoint = ParseEndpoint(value, 0, std::nullopt);
    if (absl::StartsWith(value, "unix:") && value != "unix:") {
      command_.socket = Absolute(value.substr(std::string("unix:").size()));
      if (reading_.Find("port-file") != nullptr) {
        errors_.push_back("--port-file: a Unix socket has no port");
      }
    } else if (endpoint.has_value()) {
      command_.host = endpoint->host;
      command_.port = endpoint->port;
    } else {
      errors_.push_back(absl::StrCat(listen == nullptr ? "--listen" : listen->origin.place,
                                     ": expected HOST:PORT, the port from 0 (any free one) to ",
                                     kMaxPort, ", such as 127.0.0.1:", kDefaultPort,
                                     ", or unix:/PATH (found ",
                                     listen == nullptr ? "none" : Quoted(value), ")"));
    }
  }

  // --http and related flags. TakeFiles takes the files.
  void TakeHttp() {
    HttpConfig& http = command_.http;
    const GivenFlag* const given = reading_.Find("http");
    if (given == nullptr) {
      for (const char* name :
           {"http-cert", "http-key", "http-host", "http-read-token-file", "http-private"}) {
        if (!reading_.IsOn(name)) continue;
        errors_.push_back(absl::StrCat("--", name, ": goes with --http only"));
      }
      return;
    }
    if (const auto endpoint = ParseEndpoint(given->value, 0, std::nullopt)) {
      http.host = endpoint->host;
      http.port = endpoint->port;
    } else {
      AddError(*given, absl::StrCat("expected HOST:PORT, the port from 0 (any free one) to ",
                                    kMaxPort, ", such as 127.0.0.1:29480"));
    }
    if ((reading_.Find("http-cert") == nullptr) != (reading_.Find("http-key") == nullptr)) {
      errors_.push_back("--http-cert, --http-key: one needs the other");
    }
    http.names = reading_.FindAll("http-host");
    http.is_private = reading_.IsOn("http-private");
  }

  // Refuses flags that do not go with --etcd.
  void CheckSeveral() {
    if (reading_.Find("state-dir") != nullptr) {
      errors_.push_back("--state-dir: does not go with --etcd");
    }
    if (!command_.socket.empty()) {
      errors_.push_back(
          "--etcd: expected --listen HOST:PORT, because other rendezvous cannot reach a Unix "
          "socket");
    }
  }

  // --until-idle and --starter.
  void TakeEnd() {
    if (const GivenFlag* const idle = reading_.Find("until-idle"); idle != nullptr) {
      command_.until_idle = ParseDuration(idle->value);
      if (!command_.until_idle) AddError(*idle, "expected a duration such as 60s");
    }
    if (const GivenFlag* const starter = reading_.Find("starter"); starter != nullptr) {
      int pid = 0;
      if (!absl::SimpleAtoi(starter->value, &pid) || pid <= 0) {
        AddError(*starter, "expected a process id");
      } else if (!command_.until_idle) {
        errors_.push_back(absl::StrCat(starter->origin.place, ": goes with --until-idle only"));
      }
      command_.starter = pid;
    }
  }

  void TakeFiles() {
    command_.port_file = Path("port-file");
    command_.state_dir = Path("state-dir");
    command_.http.certificate_file = Path("http-cert");
    command_.http.key_file = Path("http-key");
    command_.http.read_token_file = Path("http-read-token-file");
    command_.log_file = Path("log-file");
    command_.events_file = Path("events-file");
    // A rendezvous that ends with its job leaves no file behind.
    if (command_.events_file.empty() && !command_.state_dir.empty() && !command_.until_idle) {
      command_.events_file = command_.state_dir + "/events.jsonl";
    }
  }

  void AddError(const GivenFlag& flag, absl::string_view expected) {
    errors_.push_back(
        absl::StrCat(flag.origin.place, ": ", expected, " (found ", Quoted(flag.value), ")"));
  }

  std::string Absolute(const std::string& path) const {
    return (std::filesystem::path(host_.CurrentDirectory()) / path).lexically_normal().string();
  }

  std::string Path(absl::string_view flag) const {
    const GivenFlag* const given = reading_.Find(flag);
    return given == nullptr || given->value.empty() ? "" : Absolute(given->value);
  }

  const FlagReading& reading_;
  const Host& host_;
  RendezvousCommand command_;
  std::vector<std::string> errors_;
};

}  // namespace

HelpCommand RendezvousHelp() { return HelpFor(kRendezvousUsage, RendezvousFlags()); }

Command ParseRendezvous(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(RendezvousFlags(), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, RendezvousHelp)) return *std::move(end);
  return RendezvousOptions(reading, host).Make();
}

}  // namespace ddprun
