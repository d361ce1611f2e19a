#include "launcher/commands/operator.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/commands/commands.h"
#include "launcher/config/values.h"
#include "launcher/connection/credentials.h"
#include "launcher/connection/etcd/find_leader.h"
#include "launcher/text/printable.h"
#include "rendezvous/client/system_resolver.h"
#include "rendezvous/core/exit_codes.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

const char* NameOf(OperatorCommand::Kind kind) {
  switch (kind) {
    case OperatorCommand::Kind::kStatus:
      return "status";
    case OperatorCommand::Kind::kStop:
      return "stop";
    case OperatorCommand::Kind::kDrain:
      return "drain";
    case OperatorCommand::Kind::kEvents:
      return "events";
    case OperatorCommand::Kind::kStacks:
      return "stacks";
    case OperatorCommand::Kind::kLogs:
      return "logs";
    case OperatorCommand::Kind::kPage:
      return "page";
    case OperatorCommand::Kind::kTop:
      return "top";
  }
  return "?";
}

int ExitCodeOfAnswer(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitRefused;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kInternal:
      return kExitInternal;
    default:
      return kExitNo;
  }
}

}  // namespace

int FailOperator(const OperatorCommand& command, const absl::Status& status) {
  std::fprintf(stderr, "ddprun %s: %s\n", NameOf(command.kind),
               Printable(status.message()).c_str());
  return ExitCodeOfAnswer(status);
}

bool PrintOut(const std::string& text) {
  return std::fputs(PrintableLines(text).c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

absl::Status CheckThatJobExists(const OperatorCommand& command, const std::string& status) {
  if (command.job.empty()) return absl::OkStatus();
  const auto json = nlohmann::json::parse(status, nullptr, false);
  const bool found = json.is_object() && json.contains("jobs") && !json["jobs"].empty();
  if (found) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the rendezvous at ", command.endpoint, " has ",
                                          NoSuchJob(command.job),
                                          "; `ddprun status` shows its jobs"));
}

namespace {

// `command.endpoint` is that of the rendezvous.
int OperateAt(const OperatorCommand& command) {
  OperatorClient::Options options;
  options.timeout = command.timeout;
  // The log callback is empty: a command's output is for programs. If the TLS files matter, the
  // command itself fails.
  const std::vector<std::string> endpoints = SplitEndpoints(command.endpoint);
  const auto credentials = LoadCredentialsOfAll(command.credentials, endpoints, command.insecure,
                                                [](bool, const std::string&) {});
  if (!credentials.ok()) {
    FailOperator(command, credentials.status());
    return kExitUsage;
  }
  for (std::size_t place = 0; place < endpoints.size(); ++place) {
    options.places.push_back({endpoints[place], (*credentials)[place]});
  }
  if (command.kind == OperatorCommand::Kind::kTop) return ShowTop(command, std::move(options));
  OperatorClient client(std::move(options));
  switch (command.kind) {
    case OperatorCommand::Kind::kStatus:
      return ShowStatus(command, client);
    case OperatorCommand::Kind::kStop:
      return StopJob(command, client);
    case OperatorCommand::Kind::kDrain:
      return DrainNode(command, client);
    case OperatorCommand::Kind::kEvents:
      return ShowEvents(command, client);
    case OperatorCommand::Kind::kStacks:
      return ShowJobStacks(command, client);
    case OperatorCommand::Kind::kLogs:
      return ShowLogs(command, client);
    case OperatorCommand::Kind::kPage:
      return ShowPage(command, client);
    case OperatorCommand::Kind::kTop:
      break;
  }
  return kExitInternal;
}

}  // namespace

int Operate(const OperatorCommand& command) {
  UseSystemResolver();
  if (!command.etcd) return OperateAt(command);
  const auto endpoint = FindLeaderInEtcd(*command.etcd, command.insecure, command.timeout);
  if (!endpoint.ok()) return FailOperator(command, endpoint.status());
  OperatorCommand found = command;
  found.endpoint = *endpoint;
  return OperateAt(found);
}

}  // namespace ddprun
