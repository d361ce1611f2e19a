#include "tests/bench/simulated_agents.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/auth/tls/peer_certificate.h"
#include "rendezvous/auth/transcript.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kHang(120);
constexpr std::int64_t kStill = 100;  // ms, of workers that move

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "simulated agents: %s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

}  // namespace

SimulatedAgent::SimulatedAgent(SimulatedAgents* owner, v1::Header header)
    : owner_(owner), header_(std::move(header)) {}

void SimulatedAgent::Open(v1::Rendezvous::Stub* stub, grpc::CompletionQueue* queue,
                          v1::AgentMessage join) {
  join_ = std::move(join);
  stub_ = stub;
  queue_ = queue;
  const auth::ClientCredentials* const credentials = owner_->options_.credentials;
  if (credentials == nullptr || !credentials->handshakes()) return StartSession();
  handshake_ = std::make_unique<Handshake>();
  handshake_->request = credentials->NewHandshake();
  handshake_->done = {this, &SimulatedAgent::OnHandshakeDone};
  handshake_->call = stub->PrepareAsyncHandshake(&handshake_->context, handshake_->request, queue);
  handshake_->call->StartCall();
  handshake_->call->Finish(&handshake_->reply, &handshake_->status, &handshake_->done);
}

void SimulatedAgent::OnHandshakeDone(bool) {
  const auto handshake = std::move(handshake_);
  if (!handshake->status.ok()) {
    Die(absl::StrCat("a handshake failed: ", handshake->status.error_message()));
  }
  const auto proof =
      owner_->options_.credentials->Prove(handshake->request, handshake->reply, "Session",
                                          auth::ServerCertificateOf(handshake->context));
  if (!proof.ok()) Die(absl::StrCat("the server is not trusted: ", proof.status().message()));
  context_.AddMetadata(auth::kProofMetadata, *proof);
  StartSession();
}

void SimulatedAgent::StartSession() {
  stream_ = stub_->PrepareAsyncSession(&context_, queue_);
  stream_->StartCall(&start_);
  // Like real agents: what an agent has to say depends on when it is connected.
  stream_->ReadInitialMetadata(&accept_);
}

void SimulatedAgent::OnAccepted(bool ok) {
  // Continues after both events, which gRPC may report on this thread in the wrong order.
  if (++heard_ < 2) return;
  if (ok) Send(std::move(join_));
  stream_->Read(&incoming_, &read_);
}

void SimulatedAgent::Send(v1::AgentMessage message) {
  const std::lock_guard lock(mutex_);
  SendLocked(std::move(message));
}

void SimulatedAgent::SendLocked(v1::AgentMessage message) {
  if (closed_) return;
  *message.mutable_header() = header_;
  sent_ = BenchClock::now();
  if (writing_) {
    waiting_.push_back(std::move(message));
    return;
  }
  writing_ = true;
  stream_->Write(message, &write_);
}

void SimulatedAgent::SendHeartbeat(BenchClock::time_point before) {
  const std::lock_guard lock(mutex_);
  if (sent_ == BenchClock::time_point() || sent_ >= before || writing_) return;
  v1::AgentMessage message;
  owner_->Fill(message.mutable_heartbeat());
  message.mutable_heartbeat()->set_sent_at(BenchClock::now().time_since_epoch().count());
  SendLocked(std::move(message));
}

void SimulatedAgent::Close() {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  if (!writing_) stream_->WritesDone(&writes_done_);
}

void SimulatedAgent::OnReadDone(bool ok) {
  if (!ok) {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      over_ = true;
    }
    stream_->Finish(&status_, &finish_);
    return;
  }
  if (incoming_.has_assignment()) {
    const std::lock_guard lock(mutex_);
    first_rank = static_cast<int>(incoming_.assignment().first_rank());
    header_.set_generation(incoming_.header().generation());
  }
  owner_->OnMessage(this, incoming_);
  stream_->Read(&incoming_, &read_);
}

void SimulatedAgent::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (!ok || over_) return;
  if (!waiting_.empty()) {
    writing_ = true;
    const v1::AgentMessage message = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    stream_->Write(message, &write_);
  } else if (closed_) {
    stream_->WritesDone(&writes_done_);
  }
}

void SimulatedAgent::OnFinished(bool) { owner_->OnDone(status_); }

SimulatedAgents::SimulatedAgents(Options options,
                                 const std::vector<std::shared_ptr<grpc::Channel>>& channels)
    : options_(std::move(options)) {
  for (const auto& channel : channels) stubs_.push_back(v1::Rendezvous::NewStub(channel));
  for (int i = 0; i < options_.agents; ++i) {
    v1::Header header;
    header.set_job(options_.job);
    header.set_generation(-1);
    // Spread like random numbers, for sorting and hashing. None is 0, and no two are equal.
    header.set_incarnation(static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15u);
    agents_.push_back(std::make_unique<SimulatedAgent>(this, std::move(header)));
  }
  const std::size_t queues = std::clamp<std::size_t>(agents_.size() / kAgentsPerQueue, 1,
                                                     std::min(channels.size(), kMostQueues));
  while (queues_.size() < queues) {
    Queue& queue = *queues_.emplace_back(std::make_unique<Queue>());
    queue.thread = std::thread([this, completions = &queue.completions] {
      void* tag = nullptr;
      bool ok = false;
      while (completions->Next(&tag, &ok)) {
        const auto& [agent, done] = *static_cast<SimulatedAgent::Tag*>(tag);
        (agent->*done)(ok);
      }
    });
  }
  heart_ = std::thread([this] { Beat(); });
}

SimulatedAgents::~SimulatedAgents() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  heart_.join();
  for (std::size_t i = 0; i < opened_; ++i) agents_[i]->Close();
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kHang, [this] { return open_ == 0; })) {
      Die("a session does not end");
    }
  }
  for (const auto& queue : queues_) queue->completions.Shutdown();
  for (const auto& queue : queues_) queue->thread.join();
}

SimulatedAgents::Step SimulatedAgents::JoinAll() {
  {
    const std::lock_guard lock(mutex_);
    open_ = agents_.size();
  }
  return Run(Body::kAssignment, [this] {
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      v1::AgentMessage message;
      v1::Join* const join = message.mutable_join();
      join->mutable_job()->set_min_nodes(options_.agents);
      join->mutable_job()->set_max_nodes(options_.agents);
      join->mutable_job()->set_max_restarts(options_.max_restarts);
      join->mutable_job()->set_join_timeout_ms(600'000);
      join->mutable_job()->set_last_call_ms(5000);
      join->mutable_job()->set_heartbeat_ms(options_.heartbeat.count());
      join->mutable_job()->set_lease_ms(
          (options_.lease.count() > 0 ? options_.lease : 3 * options_.heartbeat).count());
      join->mutable_job()->set_save_timeout_ms(60'000);
      join->mutable_job()->set_hang_timeout_ms(options_.hang_timeout.count());
      join->mutable_job()->set_on_hang(2);  // report
      join->mutable_node()->set_host(absl::StrCat("node-", 100000 + i));
      join->mutable_node()->set_address(absl::StrCat("10.0.", i / 256 % 256, ".", i % 256));
      join->mutable_node()->set_worker_count(options_.workers);
      join->set_offered_port(29500);
      const std::size_t channel = i * stubs_.size() / agents_.size();
      agents_[i]->Open(stubs_[channel].get(),
                       &queues_[channel * queues_.size() / stubs_.size()]->completions,
                       std::move(message));
      opened_ = i + 1;
    }
  });
}

SimulatedAgents::Step SimulatedAgents::PrepareAll() {
  return Run(Body::kStart, [this] {
    for (const auto& agent : agents_) {
      v1::AgentMessage message;
      message.mutable_prepared();
      agent->Send(std::move(message));
    }
  });
}

SimulatedAgents::Step SimulatedAgents::FailOne() {
  return Run(Body::kStop, [this] {
    v1::AgentMessage message;
    v1::WorkerExited* const exit = message.mutable_worker_exited();
    exit->set_rank(static_cast<std::uint32_t>(agents_[0]->first_rank));
    exit->set_pid(4242);
    // A kill from outside: a worker that repeatedly ends by itself is restarted after a pause.
    exit->mutable_status()->set_signal(SIGKILL);
    exit->set_step(100);
    agents_[0]->Send(std::move(message));
  });
}

SimulatedAgents::Step SimulatedAgents::DrainAll() {
  return Run(Body::kAssignment, [this] {
    for (const auto& agent : agents_) {
      v1::AgentMessage message;
      message.mutable_drained()->set_offered_port(29501);
      message.mutable_drained()->set_last_step(100);
      agent->Send(std::move(message));
    }
  });
}

void SimulatedAgents::FinishAll() {
  Run(Body::kFinished, [this] {
    for (const auto& agent : agents_) {
      v1::AgentMessage message;
      v1::WorkerExited* const exit = message.mutable_worker_exited();
      exit->set_rank(static_cast<std::uint32_t>(agent->first_rank));
      exit->set_pid(4242);
      exit->mutable_status();
      agent->Send(std::move(message));
    }
  });
}

void SimulatedAgents::Idle(std::chrono::milliseconds duration) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, duration, [this] { return ending_.load(); });
}

void SimulatedAgents::Tell(Tells tells) {
  still_since_ = BenchClock::now();
  tells_ = tells;
}

void SimulatedAgents::AnswerTakeStacks(std::function<v1::StackTree(int first_rank)> make) {
  make_stacks_ = std::move(make);
}

SimulatedAgents::Verdict SimulatedAgents::AwaitVerdict() {
  Run(Body::kHangStacks, [] {});
  Verdict verdict;
  for (const auto& agent : agents_) verdict.told = std::max(verdict.told, agent->answered);
  const std::lock_guard lock(seen_mutex_);
  if (!asked_) Die("there is a verdict, and nobody was asked for stacks");
  verdict.asked = *asked_;
  verdict.decided = *decided_;
  verdict.stacks = stacks_;
  verdict.moves_again = moves_again_;
  return verdict;
}

std::vector<SimulatedAgents::HeartbeatTime> SimulatedAgents::TakeHeartbeatTimes() {
  const std::lock_guard lock(seen_mutex_);
  return std::exchange(heartbeat_times_, {});
}

SimulatedAgents::Step SimulatedAgents::Run(Body expected, const std::function<void()>& start) {
  missing_ = agents_.size();
  expected_ = expected;
  const BenchClock::time_point began = BenchClock::now();
  start();
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kHang, [this] { return missing_ == 0; })) {
      Die(absl::StrCat(missing_.load(), " of ", agents_.size(), " agents have no message ",
                       static_cast<int>(expected)));
    }
  }
  expected_ = v1::RendezvousMessage::BODY_NOT_SET;
  Step step;
  for (const auto& agent : agents_) {
    step.latencies_ms.push_back(Milliseconds(agent->answered - began).count());
  }
  std::sort(step.latencies_ms.begin(), step.latencies_ms.end());
  return step;
}

void SimulatedAgents::OnMessage(SimulatedAgent* agent, const v1::RendezvousMessage& message) {
  received_.fetch_add(1, std::memory_order_relaxed);
  const Body body = message.body_case();
  if (body == Body::kRefused) Die(absl::StrCat("refused: ", message.refused().reason()));
  if (body == Body::kFenced) Die(absl::StrCat("fenced: ", message.fenced().reason()));
  if (body == Body::kWarning && absl::StrContains(message.warning().text(), "moves again")) {
    moves_again_ = true;
  }
  if (body == Body::kTakeStacks) OnTakeStacks(agent, message.take_stacks().request());
  if (body == Body::kHangStacks) OnVerdict(message.hang_stacks());
  if (body == Body::kHeartbeatAck) OnHeartbeatAck(message.heartbeat_ack().sent_at());
  if (body != expected_) {
    if (body == Body::kFinished) Die(absl::StrCat("finished: ", message.finished().reason()));
    return;  // a Waiting or HeartbeatAck
  }
  if (body == Body::kAssignment) assignment_bytes_ = message.ByteSizeLong();
  if (body == Body::kStart) start_bytes_ = message.ByteSizeLong();
  if (body == Body::kStop) stop_bytes_ = message.ByteSizeLong();
  agent->answered = BenchClock::now();
  if (--missing_ > 0) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void SimulatedAgents::OnTakeStacks(SimulatedAgent* agent, std::uint64_t request) {
  {
    const std::lock_guard lock(seen_mutex_);
    if (!asked_) asked_ = BenchClock::now();
  }
  if (!make_stacks_) return;
  v1::AgentMessage message;
  message.mutable_stacks_taken()->set_request(request);
  message.mutable_stacks_taken()->set_tree(make_stacks_(agent->first_rank).SerializeAsString());
  agent->Send(std::move(message));
}

void SimulatedAgents::OnVerdict(const v1::HangStacks& stacks) {
  const std::lock_guard lock(seen_mutex_);
  if (decided_) return;
  decided_ = BenchClock::now();
  stacks_ = stacks;
}

void SimulatedAgents::OnHeartbeatAck(std::int64_t sent_at) {
  const HeartbeatTime time{BenchClock::time_point(BenchClock::duration(sent_at)),
                           BenchClock::now()};
  const std::lock_guard lock(seen_mutex_);
  heartbeat_times_.push_back(time);
}

void SimulatedAgents::OnDone(const grpc::Status& status) {
  if (!ending_) Die(absl::StrCat("a session ended: ", status.error_message()));
  const std::lock_guard lock(mutex_);
  if (--open_ == 0) changed_.notify_all();
}

// Sends the heartbeats of all agents once in each interval, in slices, as if the agents had started
// at different times.
void SimulatedAgents::Beat() {
  constexpr int kSlices = 100;
  const BenchClock::time_point began = BenchClock::now();
  for (int slice = 0;; ++slice) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, began + slice * options_.heartbeat / kSlices,
                          [this] { return ending_.load(); });
      if (ending_) return;
    }
    const std::size_t opened = opened_;
    const auto before = BenchClock::now() - options_.heartbeat / 2;
    for (std::size_t i = slice % kSlices; i < opened; i += kSlices) {
      agents_[i]->SendHeartbeat(before);
    }
  }
}

void SimulatedAgents::Fill(v1::Heartbeat* heartbeat) const {
  const Tells tells = tells_;
  if (tells == Tells::kNothing) return;
  const BenchClock::time_point since = still_since_;
  const bool still = tells == Tells::kStandstill;
  const auto now = still ? since : BenchClock::now();
  heartbeat->set_step(
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
  if (tells == Tells::kStep) return;
  v1::NodeProgress* const progress = heartbeat->mutable_progress();
  progress->set_workers(options_.workers);
  progress->add_phases("");
  progress->set_names_phases(true);
  progress->set_still_ms(kStill);
  progress->set_moves(still ? 1 : static_cast<std::uint64_t>(now.time_since_epoch().count()));
  if (!still) return;
  const auto still_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(BenchClock::now() - since).count();
  progress->set_still_ms(still_ms);
  if (still_ms < 1000) return;  // real agents send details after one second, too
  for (int worker = 0; worker < options_.workers; ++worker) {
    v1::StillWorker* const one = progress->add_still_workers();
    one->set_local_rank(worker);
    one->set_pid(4242 + worker);
    one->set_still_ms(still_ms);
    one->set_step(heartbeat->step());
    one->set_waits_for("futex");
  }
}

}  // namespace ddprun
