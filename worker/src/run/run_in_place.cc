#include <ddp/run.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "worker/src/agent/control_client.h"
#include "worker/src/agent/leave_watch.h"
#include "worker/src/agent/standby.h"
#include "worker/src/group/failure.h"
#include "worker/src/run/context_state.h"

namespace ddp {
namespace {

// How long to wait, after a failed collective, for the agent to say that the generation is over. If
// a node is lost, that takes the lease (3 s by default) and a little more.
constexpr std::chrono::seconds kPatience{5};

}  // namespace

std::optional<int> Context::State::RunGeneration(const std::function<int(Context&)>& body,
                                                 const Options& options) {
  internal::ControlClient& agent = internal::ControlClient::Process();
  BeginWithAgent(options);
  auto joining = std::make_unique<State>();
  State& state = *joining;
  state.in_place = true;
  std::optional<Context> ctx;  // owns the state when it has joined
  {
    internal::LeaveWatch watch(&agent, [&state] { state.Leave(); });
    try {
      state.Join(options);
      if (state.CanLeave() && state.backend != "gloo") agent.SendStays();
      ctx.emplace(Context(std::move(joining)));
      const int code = body(*ctx);
      internal::ThrowIfGroupIsLost();
      return code;
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      if (!agent.leaves() && internal::IsVictim(error)) {
        state.EndCollectives();  // so ranks that wait for this one fail too
        if (agent.AgentPid() != 0) watch.Wait(kPatience);
      }
      if (!agent.leaves()) internal::EndWithFailure(error);
    }
  }
  if (joining != nullptr) joining->Abandon();
  return std::nullopt;
}

int run_in_place(const std::function<int(Context&)>& body, const Options& options) {
  internal::ControlClient& agent = internal::ControlClient::Process();
  try {
    for (;;) {
      if (const auto code = Context::State::RunGeneration(body, options)) return *code;
      internal::WaitAsSurvivor(&agent);
      agent.BeginGeneration();
    }
  } catch (...) {
    internal::EndWithFailure(std::current_exception());
  }
}

}  // namespace ddp
