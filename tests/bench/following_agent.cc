#include "tests/bench/following_agent.h"

#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/tls/peer_certificate.h"
#include "rendezvous/auth/transcript.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

// Connecting again takes milliseconds of CPU time, mostly for TLS. Real agents spend this time on
// hosts of their own; here it would delay what is measured. So the simulated agents connect again
// later than any takeover, and not all at the same time.
constexpr milliseconds kFollowAgain(3000);
constexpr milliseconds kFollowAgainSpread(2000);
constexpr milliseconds kConnectAgain(50);  // as the first backoff of agents
constexpr std::uint32_t kStandsBy = 0;
constexpr std::uint32_t kLeads = 1;

void* Tag(OnDone done) { return new OnDone(std::move(done)); }

std::int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

// The tags of a call keep it alive.
class FollowingAgent::FollowCall : public std::enable_shared_from_this<FollowCall> {
 public:
  FollowCall(FollowingAgent* agent, int place) : agent_(agent), place_(place) {}

  void Start() {
    context_.set_wait_for_ready(true);  // until the rendezvous is there
    reader_ =
        agent_->stubs_[place_]->PrepareAsyncFollow(&context_, {}, &agent_->queue_->completions);
    reader_->StartCall(
        Tag([self = shared_from_this()](bool ok) { ok ? self->Read() : self->Finish(); }));
  }
  void Cancel() { context_.TryCancel(); }

 private:
  void Read() {
    reader_->Read(&leading_, Tag([self = shared_from_this()](bool ok) {
      if (!ok) return self->Finish();
      if (!std::exchange(self->heard_, true)) self->agent_->owner_->OnFollowing(1);
      self->agent_->OnLeading(self->place_, self->leading_);
      self->Read();
    }));
  }
  void Finish() {
    reader_->Finish(&status_, Tag([self = shared_from_this()](bool) {
      if (self->heard_) self->agent_->owner_->OnFollowing(-1);
      self->agent_->OnFollowEnded(self->place_);
    }));
  }

  FollowingAgent* const agent_;
  const int place_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::Leading>> reader_;
  v1::Leading leading_;
  grpc::Status status_;
  bool heard_ = false;
};

class FollowingAgent::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(FollowingAgent* agent, int place, bool waits)
      : agent_(agent), stub_(agent->stubs_[place]), waits_(waits) {}

  bool open() const { return started_ == 2 && accepted_; }

  void Start() {
    const auth::ClientCredentials* const credentials = agent_->owner_->options_.credentials.get();
    if (credentials == nullptr || !credentials->handshakes()) return Open();
    request_ = credentials->NewHandshake();
    handshake_ =
        stub_->PrepareAsyncHandshake(&handshake_context_, request_, &agent_->queue_->completions);
    handshake_->StartCall();
    handshake_->Finish(&reply_, &status_,
                       Tag([self = shared_from_this()](bool) { self->OnHandshake(); }));
  }
  // The first message must be the Join.
  void Send(const v1::AgentMessage& message) {
    if (!open()) return;
    waiting_.push_back(message);
    if (waiting_.size() == 1) Write();
  }
  void Cancel() {
    handshake_context_.TryCancel();
    context_.TryCancel();
  }

 private:
  void OnHandshake() {
    if (!status_.ok()) return agent_->OnSessionEnded(this);
    const auto proof = agent_->owner_->options_.credentials->Prove(
        request_, reply_, "Session", auth::ServerCertificateOf(handshake_context_));
    if (!proof.ok()) return agent_->OnSessionEnded(this);
    context_.AddMetadata(auth::kProofMetadata, *proof);
    Open();
  }
  void Open() {
    if (waits_) context_.AddMetadata(wire::kWaitsMetadata, wire::kWaits);
    stream_ = stub_->PrepareAsyncSession(&context_, &agent_->queue_->completions);
    stream_->StartCall(Tag([self = shared_from_this()](bool) { self->OnStarted(); }));
    stream_->ReadInitialMetadata(Tag([self = shared_from_this()](bool ok) {
      self->accepted_ = ok;
      self->OnStarted();
    }));
  }
  void OnStarted() {
    if (++started_ < 2) return;
    if (accepted_) agent_->OnAccepted(this);
    Read();
  }
  void Read() {
    stream_->Read(&incoming_, Tag([self = shared_from_this()](bool ok) {
      if (!ok) return self->Finish();
      if (self->agent_->session_ == self) self->agent_->OnMessage(self->incoming_);
      self->Read();
    }));
  }
  void Write() {
    grpc::WriteOptions options;
    if (waiting_.size() > 1) options.set_buffer_hint();  // as agents do
    stream_->Write(waiting_.front(), options, Tag([self = shared_from_this()](bool ok) {
                     self->waiting_.pop_front();
                     if (ok && !self->waiting_.empty()) self->Write();
                   }));
  }
  void Finish() {
    stream_->Finish(&status_, Tag([self = shared_from_this()](bool) {
      self->agent_->OnSessionEnded(self.get());
    }));
  }

  FollowingAgent* const agent_;
  v1::Rendezvous::Stub* const stub_;
  const bool waits_;
  grpc::ClientContext handshake_context_;
  v1::HandshakeRequest request_;
  v1::HandshakeReply reply_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::HandshakeReply>> handshake_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::AgentMessage, v1::RendezvousMessage>> stream_;
  v1::RendezvousMessage incoming_;
  grpc::Status status_;
  int started_ = 0;
  bool accepted_ = false;
  std::deque<v1::AgentMessage> waiting_;  // the first one is being written
};

FollowingAgent::FollowingAgent(FollowingAgents* owner, int index,
                               std::vector<v1::Rendezvous::Stub*> stubs,
                               FollowingAgents::Queue* queue)
    : owner_(owner), index_(index), stubs_(std::move(stubs)), queue_(queue) {
  header_.set_job(owner->options_.job);
  header_.set_generation(-1);
  header_.set_incarnation(static_cast<std::uint64_t>(index + 1) * 0x9E3779B97F4A7C15u);
  follows_.resize(stubs_.size());
  waiting_.resize(stubs_.size());
}

FollowingAgent::~FollowingAgent() = default;

void FollowingAgent::Begin() {
  for (std::size_t place = 0; place < stubs_.size(); ++place) Follow(static_cast<int>(place));
  // Spread over the period, like the heartbeats of agents that started at different times.
  After(owner_->options_.heartbeat * index_ / owner_->options_.agents, [this] { Beat(); });
}

void FollowingAgent::Follow(int place) {
  follows_[place] = std::make_shared<FollowCall>(this, place);
  follows_[place]->Start();
}

void FollowingAgent::OnFollowEnded(int place) {
  if (place == leader_) leader_ = -1;
  const milliseconds delay = kFollowAgain + kFollowAgainSpread * index_ / owner_->options_.agents;
  After(delay, [this, place] { Follow(place); });
}

void FollowingAgent::OnLeading(int place, const v1::Leading& leading) {
  if (leading.role() == kStandsBy) WaitAt(place);
  if (leading.role() != kLeads || leading.term() < term_) {
    if (place == leader_) leader_ = -1;
    return;
  }
  const bool another = place != leader_ || session_ == nullptr;
  leader_ = place;
  term_ = leading.term();
  if (another) OpenSession(place);
}

void FollowingAgent::WaitAt(int place) {
  if (waiting_[place] != nullptr) return;
  waiting_[place] = std::make_shared<Session>(this, place, /*waits=*/true);
  waiting_[place]->Start();
}

void FollowingAgent::OpenSession(int place) {
  // Cancels the old session, because the host of the old leader may be silent. This costs as much
  // as a message, so it happens later, like connecting again.
  if (session_ != nullptr) After(kFollowAgain, [past = session_] { past->Cancel(); });
  session_ = std::exchange(waiting_[place], nullptr);
  if (session_ != nullptr && session_->open()) {
    owner_->OnWaiting(-1);
    return Introduce();
  }
  if (session_ != nullptr) session_->Cancel();
  session_ = std::make_shared<Session>(this, place, /*waits=*/false);
  session_->Start();
}

void FollowingAgent::OnSessionEnded(const Session* session) {
  for (auto& waiting : waiting_) {
    if (waiting.get() != session) continue;
    if (session->open()) owner_->OnWaiting(-1);
    waiting = nullptr;
  }
  if (session_.get() != session) return;  // it was cancelled
  session_ = nullptr;
  if (leader_ < 0) return;  // a session opens when the next leader is known
  After(kConnectAgain, [this] {
    if (session_ == nullptr && leader_ >= 0) OpenSession(leader_);
  });
}

void FollowingAgent::OnAccepted(const Session* session) {
  if (session_.get() == session) return Introduce();
  for (const auto& waiting : waiting_) {
    if (waiting.get() == session) owner_->OnWaiting(1);
  }
}

// Like an agent that introduces itself to a rendezvous that may know it: it repeats its reports.
void FollowingAgent::Introduce() {
  SendJoin();
  if (running_) {
    SendHeartbeat();
  } else if (prepared_) {
    SendPrepared();
  }
}

void FollowingAgent::OnMessage(const v1::RendezvousMessage& message) {
  if (message.header().term() < term_) return;
  term_ = message.header().term();
  if (message.has_heartbeat_ack() && acknowledged_ < term_) {
    acknowledged_ = term_;
    owner_->OnAcknowledged(term_);
  } else if (message.has_assignment()) {
    OnAssignment(message);
  } else if (message.has_start() && !running_) {
    running_ = true;
    owner_->OnStarted();
  } else if (message.has_stop() && running_) {
    owner_->OnDisturbed("Stop");
    running_ = prepared_ = false;
    v1::AgentMessage stopped;
    stopped.mutable_drained()->set_offered_port(29501);
    Send(std::move(stopped));
  } else if (message.has_fenced()) {
    owner_->OnDisturbed(absl::StrCat("Fenced: ", message.fenced().reason()));
    running_ = prepared_ = false;
    SendJoin();
  } else if (message.has_refused()) {
    owner_->OnDisturbed(absl::StrCat("Refused: ", message.refused().reason()));
  } else if (message.has_finished()) {
    owner_->OnDisturbed(absl::StrCat("Finished: ", message.finished().reason()));
  }
}

void FollowingAgent::OnAssignment(const v1::RendezvousMessage& message) {
  if (prepared_ && message.header().generation() == header_.generation()) return;
  header_.set_generation(message.header().generation());
  prepared_ = true;
  SendPrepared();
}

void FollowingAgent::Beat() {
  // Like real agents: sends no heartbeat soon after the one that follows a Join.
  const bool due =
      Now() - beat_at_ > std::chrono::nanoseconds(owner_->options_.heartbeat).count() / 2;
  if (session_ != nullptr && due) SendHeartbeat();
  After(owner_->options_.heartbeat, [this] { Beat(); });
}

void FollowingAgent::Send(v1::AgentMessage message) {
  if (session_ == nullptr) return;
  *message.mutable_header() = header_;
  session_->Send(message);
}

void FollowingAgent::SendHeartbeat() {
  if (!joined_once_) return;
  v1::AgentMessage message;
  beat_at_ = Now();
  message.mutable_heartbeat()->set_sent_at(beat_at_);
  Send(std::move(message));
}

void FollowingAgent::SendPrepared() {
  v1::AgentMessage message;
  message.mutable_prepared();
  Send(std::move(message));
}

void FollowingAgent::SendJoin() {
  const FollowingAgents::Options& options = owner_->options_;
  v1::AgentMessage message;
  v1::Join* const join = message.mutable_join();
  v1::JobSpec* const spec = join->mutable_job();
  spec->set_min_nodes(options.agents);
  spec->set_max_nodes(options.agents);
  spec->set_max_restarts(1'000'000);
  spec->set_join_timeout_ms(600'000);
  spec->set_last_call_ms(5000);
  spec->set_heartbeat_ms(options.heartbeat.count());
  spec->set_lease_ms(options.lease.count());
  spec->set_save_timeout_ms(60'000);
  spec->set_on_hang(3);  // ignore
  v1::NodeSpec* const node = join->mutable_node();
  node->set_host(absl::StrCat("node-", 100'000 + index_));
  node->set_address(absl::StrCat("10.0.", index_ / 256 % 256, ".", index_ % 256));
  node->set_worker_count(1);
  join->set_offered_port(29500);
  join->set_workers_running(running_);
  join->set_returning(std::exchange(joined_once_, true));
  Send(std::move(message));
}

void FollowingAgent::After(std::chrono::milliseconds delay, std::function<void()> then) {
  queue_->timers.After(delay, std::move(then));
}

}  // namespace ddprun
