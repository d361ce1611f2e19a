#include "worker/src/group/failure.h"

#include <c10/util/Exception.h>
#include <cxxabi.h>
#include <ddp/errors.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/src/agent/control_client.h"
#include "worker/src/agent/launch_variables.h"
#include "worker/src/peers/activity.h"
#include "worker/src/peers/lost_group.h"
#include "worker/src/peers/rank_failure_detector.h"

namespace ddp::internal {
namespace {

namespace control = ddprun::control;

// Used if this rank cannot ask the other ranks.
constexpr char kPeerHint[] =
    ". A lost connection usually means that a peer has ended; the cause is then in that peer's log";

constexpr char kGroupIsLost[] = "a rank was lost, and the collectives of the GPU were aborted";

// The name of the thrown type, for example "gloo::IoException".
std::string TypeName(const std::exception& error) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : "std::exception";
}

// Exceptions of Gloo, c10d and NCCL come out of backward() unchanged. Their classes differ between
// versions of libtorch; their namespaces do not.
bool IsCollective(const std::string& type, const std::string& text) {
  return type.starts_with("gloo::") || type.starts_with("c10d::") ||
         type.starts_with("c10::Dist") || text.find("NCCL error") != std::string::npos;
}

void Classify(const std::exception& error, int rank, Failure* failure) {
  failure->type = TypeName(error);
  failure->text = TextOf(error);
  failure->kind = control::kErrorUser;
  if (const auto* agreed = dynamic_cast<const AgreedError*>(&error)) {
    // One rank is named as the cause, even if several ranks failed. Only that rank prints the line.
    failure->print = agreed->failing_rank() == rank;
    if (!failure->print) {
      failure->kind = control::kErrorCollective;
    } else if (dynamic_cast<const FolderTakenError*>(&error) != nullptr) {
      failure->kind = control::kErrorFolder;
      failure->exit_code = control::kExitFolder;
    } else if (dynamic_cast<const StateUnreadableError*>(&error) != nullptr) {
      failure->kind = control::kErrorState;
    }
  } else if (dynamic_cast<const BindError*>(&error) != nullptr) {
    failure->kind = control::kErrorBind;
  } else if (dynamic_cast<const CheckpointError*>(&error) != nullptr) {
    failure->kind = control::kErrorCheckpoint;
  } else if (dynamic_cast<const CollectiveError*>(&error) != nullptr) {
    failure->kind = control::kErrorCollective;
  } else if (IsCollective(failure->type, failure->text)) {
    failure->kind = control::kErrorCollective;
    failure->text = "a collective failed: " + failure->text + Cause();
  }
}

}  // namespace

std::string Cause() {
  // The agent has ended the generation, so it knows the cause. An answer could come only once the
  // kernel has closed the dead rank's sockets.
  if (ControlClient::Process().leaves()) return "";
  const std::shared_ptr<RankFailureDetector> detector = ProcessFailureDetector();
  const std::string cause = detector == nullptr ? "" : detector->Ask();
  return cause.empty() ? kPeerHint : ". " + cause;
}

std::string TextOf(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Failure Describe(const std::exception& error, int rank) {
  NoteLossReported();
  Failure failure;
  Classify(error, rank, &failure);
  return failure;
}

bool IsVictim(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const AgreedError& e) {
    return !e.failed_here();
  } catch (const CollectiveError&) {
    return true;
  } catch (const std::exception& e) {
    return IsCollective(TypeName(e), TextOf(e));
  } catch (...) {
    return false;
  }
}

int RankForMessages() {
  const char* const text = LaunchVariable(ddprun::env::kRank);
  if (text == nullptr) return 0;
  return static_cast<int>(control::ParseNumber(text).value_or(0));
}

void EndWithFailure(const std::exception_ptr& error) {
  NoteEnd();
  const int rank = RankForMessages();
  const Failure failure = Describe(error, rank);
  std::cout.flush();
  std::fflush(stdout);
  if (failure.print) {
    // One write, so that the lines of several ranks do not mix on a terminal.
    const std::string line = "[rank " + std::to_string(rank) + "] error: " + failure.text + "\n";
    std::cerr << line << std::flush;
  }
  // Tells the other ranks. A victim of a failed collective need not, because it has already asked
  // them.
  if (failure.print && failure.kind != control::kErrorCollective) {
    if (const auto detector = ProcessFailureDetector()) detector->ReportError(failure.text);
  }
  ControlClient::Process().Send(control::kError, failure.kind + " " + failure.text);
  if (const char* const path = LaunchVariable(ddprun::env::kErrorFile)) {
    WriteErrorFile(path, failure, rank);
  }
  std::_Exit(failure.exit_code);
}

void EndBecauseOfLoss() {
  EndWithFailure(std::make_exception_ptr(CollectiveError(
      std::string(kGroupIsLost) + ", and yet this rank does not come back" + Cause())));
}

Failure Describe(const std::exception_ptr& error, int rank) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return Describe(e, rank);
  } catch (...) {
    Failure failure;
    failure.kind = control::kErrorUser;
    failure.type = "unknown";
    failure.text = "an exception that is not a std::exception";
    return failure;
  }
}

void WriteErrorFile(const std::string& path, const Failure& failure, int rank) {
  const nlohmann::json document = {
      {"message",
       {{"message", failure.type + ": " + failure.text},
        {"extraInfo",
         {{"rank", std::to_string(rank)}, {"timestamp", std::to_string(std::time(nullptr))}}}}}};
  std::ofstream file(path, std::ios::trunc);
  // `replace`, because a message may contain bytes of a damaged file.
  file << document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::flush;
  if (!file) {
    std::cerr << "[rank " << rank << "] warning: cannot write TORCHELASTIC_ERROR_FILE " << path
              << ": " << std::strerror(errno) << std::endl;
  }
}

void ThrowIfLeaving() {
  if (!ControlClient::Process().leaves()) return;
  throw CollectiveError("this generation of the job is over, and its ranks leave the group");
}

void ThrowIfGroupIsLost() {
  if (!GroupIsLost()) return;
  NoteLossReported();
  throw CollectiveError(kGroupIsLost + Cause());
}

void Collective(const std::string& what, int rank, int world_size,
                const std::function<void()>& operation) {
  const InCollective here(what);
  const auto check = [] {
    if (GroupIsLost()) throw std::runtime_error(kGroupIsLost);
  };
  try {
    check();  // an operation that begins now would wait for ever
    operation();
    check();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    NoteLossReported();
    throw CollectiveError(what + " failed on rank " + std::to_string(rank) + " of " +
                          std::to_string(world_size) + ": " + TextOf(e) + Cause());
  }
}

}  // namespace ddp::internal
