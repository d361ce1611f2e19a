// FollowingAgent: a simulated agent that follows the leader among several rendezvous. All its calls
// are on one completion queue with one thread, so nothing here needs a lock.
#ifndef DDPRUN_TESTS_BENCH_FOLLOWING_AGENT_H_
#define DDPRUN_TESTS_BENCH_FOLLOWING_AGENT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/following_agents.h"

namespace ddprun {

// The tag of an operation: the thread of its queue calls it once, and deletes it.
using OnDone = std::function<void(bool ok)>;

class FollowingAgent {
 public:
  // `stubs`: one for each rendezvous; its index is the *place* of the rendezvous. All that the
  // pointers point to outlives the agent.
  FollowingAgent(FollowingAgents* owner, int index, std::vector<v1::Rendezvous::Stub*> stubs,
                 FollowingAgents::Queue* queue);
  ~FollowingAgent();
  void Begin();

 private:
  class FollowCall;
  class Session;

  void Follow(int place);
  void OnLeading(int place, const v1::Leading& leading);
  void WaitAt(int place);
  void OnFollowEnded(int place);
  void OpenSession(int place);
  void OnAccepted(const Session* session);
  void Introduce();
  void OnMessage(const v1::RendezvousMessage& message);
  void OnAssignment(const v1::RendezvousMessage& message);
  void OnSessionEnded(const Session* session);
  void Beat();
  void Send(v1::AgentMessage message);
  void SendJoin();
  void SendHeartbeat();
  void SendPrepared();
  // `then` is called on the queue's thread.
  void After(std::chrono::milliseconds delay, std::function<void()> then);

  FollowingAgents* const owner_;
  const int index_;
  const std::vector<v1::Rendezvous::Stub*> stubs_;
  FollowingAgents::Queue* const queue_;
  v1::Header header_;
  std::vector<std::shared_ptr<FollowCall>> follows_;  // by place; null: begins again soon
  std::vector<std::shared_ptr<Session>> waiting_;     // by place: waiting sessions, or null
  std::shared_ptr<Session> session_;                  // null: no leader is known
  int leader_ = -1;                                   // the leader's place
  std::uint64_t term_ = 0;                            // the highest one seen
  std::uint64_t acknowledged_ = 0;                    // the term of the newest acknowledgement
  std::int64_t beat_at_ = 0;                          // when the last heartbeat was sent
  bool joined_once_ = false;
  bool prepared_ = false;  // in the generation of header_
  bool running_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_BENCH_FOLLOWING_AGENT_H_
