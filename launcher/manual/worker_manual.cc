#include "absl/strings/str_cat.h"
#include "launcher/manual/control_messages.h"
#include "launcher/manual/manuals.h"
#include "worker/contract/control.h"
#include "worker/contract/environment.h"

namespace ddprun::manual {
namespace {

std::string WhoHas(env::Scope scope) {
  switch (scope) {
    case env::Scope::kRank:
      return " Not set in a warm standby.";
    case env::Scope::kUnlessSet:
      return " If the user has set a value, ddprun keeps it.";
    case env::Scope::kStandby:
    case env::Scope::kProcess:
      break;
  }
  return "";
}

void AddMessages(Sender sender, RoffPage* page) {
  for (const ControlMessageRow& row : kControlMessages) {
    if (row.sender == sender) page->Item(absl::StrCat(row.key, "="), row.value, row.what);
  }
}

}  // namespace

Manual WorkerManual(const Edition& edition) {
  RoffPage page({"ddprun-worker", 7, "what a worker gets from ddprun, and what it may report",
                 "Miscellaneous Information"},
                edition);
  page.Section("DESCRIPTION");
  page.Paragraph(
      "A worker is a process that `ddprun` starts. Environment variables tell the worker its place "
      "in the job, as under torchrun. The worker may report its progress over a socket; this is "
      "optional. The library `ddp::` and the Python module `ddprun` do both.");
  page.Section("ENVIRONMENT");
  for (const env::Variable& variable : env::kVariables) {
    std::string text = absl::StrCat(variable.what, WhoHas(variable.scope));
    if (*variable.key != '\0') {
      absl::StrAppend(&text, " Key of job files: `", variable.key, "`.");
    }
    page.Item(variable.name, "", text);
  }
  page.Section("CONTROL SOCKET");
  page.Paragraph(absl::StrCat("`", env::kControlSocket,
                              "` names a Unix socket of type SOCK_SEQPACKET. A message is one ",
                              "packet of lines KEY=VALUE, of at most ", control::kMaxPacketBytes,
                              " bytes. The agent skips keys that it does not know."));
  page.Subsection("From a worker");
  AddMessages(Sender::kWorker, &page);
  page.Subsection("From the agent, to workers that have sent something");
  AddMessages(Sender::kAgent, &page);
  page.SeeAlso({"ddprun(1)", "ddprun.yaml(5)"});
  return {"ddprun-worker.7", page.text()};
}

}  // namespace ddprun::manual
