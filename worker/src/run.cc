#include <ddp/run.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/src/control_client.h"
#include "worker/src/failure.h"
#include "worker/src/peers.h"

namespace ddp {
namespace {

// This process's rank for messages; 0 if nobody set it or it is malformed, because the
// environment may be the very thing that is wrong.
int RankForMessages() {
  const char* const text = std::getenv(ddprun::env::kRank);
  if (text == nullptr) return 0;
  return static_cast<int>(ddprun::control::ParseNumber(text).value_or(0));
}

[[noreturn]] void EndWithFailure(const std::exception_ptr& error) {
  const int rank = RankForMessages();
  const internal::Failure failure = internal::Describe(error, rank);
  std::cout.flush();
  std::fflush(stdout);
  if (failure.print) {
    // One write, so that the lines of several ranks on one terminal do not mix.
    const std::string line = "[rank " + std::to_string(rank) + "] error: " + failure.text + "\n";
    std::cerr << line << std::flush;
  }
  // The others need not guess; those of a collective are victims themselves, and have asked.
  if (failure.print && failure.kind != ddprun::control::kErrorCollective) {
    if (const auto peers = internal::ProcessPeers()) peers->ReportError(failure.text);
  }
  internal::ControlClient::Process().Send(ddprun::control::kError,
                                          failure.kind + " " + failure.text);
  if (const char* const path = std::getenv(ddprun::env::kErrorFile)) {
    internal::WriteErrorFile(path, failure, rank);
  }
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

int run(const std::function<int()>& body) {
  try {
    return body();
  } catch (...) {
    EndWithFailure(std::current_exception());
  }
}

std::string explain(const std::exception& error) {
  return internal::Describe(error, RankForMessages()).text;
}

}  // namespace ddp
