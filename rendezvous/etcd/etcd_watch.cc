#include "rendezvous/etcd/etcd_watch.h"

#include <algorithm>
#include <utility>

namespace ddprun::etcd {
namespace {

namespace pb = etcdserverpb;
using Clock = std::chrono::steady_clock;

}  // namespace

// One stream of one member, on the watch's thread.
class KeyWatch::Stream {
 public:
  Stream(const Members::ChannelPtr& channel, grpc::ClientContext* context)
      : context_(context), stub_(pb::Watch::NewStub(channel)) {
    stream_ = stub_->PrepareAsyncWatch(context, &queue_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) continue;
  }

  // Calls `on_response` with each response about `key` from `revision` on, until `on_response`
  // returns false, or the stream ends or is cancelled. DEADLINE_EXCEEDED: the member was silent for
  // kSilence.
  template <class OnResponse>
  grpc::Status Follow(const std::string& key, std::int64_t revision, OnResponse on_response) {
    out_.mutable_create_request()->set_key(key);
    out_.mutable_create_request()->set_start_revision(revision);
    stream_->StartCall(Tag(kStart));
    ++under_way_;
    Clock::time_point heard = Clock::now();
    bool asked = false;  // since `heard`, for a message
    bool ended = false;
    bool silent = false;
    while (under_way_ > 0) {
      void* tag = nullptr;
      bool ok = false;
      const Deadline next = ended ? Deadline::max() : heard + (asked ? kSilence : kSilence / 2);
      const auto status = queue_.AsyncNext(&tag, &ok, ToGrpc(next));
      if (status == grpc::CompletionQueue::TIMEOUT) {
        if (asked || writing_) {
          context_->TryCancel();
          ended = silent = true;
        } else {
          out_.mutable_progress_request();
          Write();
          asked = true;
        }
        continue;
      }
      --under_way_;
      if (tag == Tag(kWritten)) writing_ = false;
      if (!ok || ended) {
        ended = true;
        continue;
      }
      if (tag == Tag(kStart)) {
        Write();
        Read();
      } else if (tag == Tag(kRead)) {
        heard = Clock::now();
        asked = false;
        if (on_response(in_)) {
          Read();
        } else {
          context_->TryCancel();
          ended = true;
        }
      }
    }
    const grpc::Status status = Finish();
    return silent ? grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "") : status;
  }

 private:
  enum Step : std::intptr_t { kStart = 1, kRead, kWritten, kFinished };
  static void* Tag(Step step) { return reinterpret_cast<void*>(step); }

  void Write() {
    stream_->Write(out_, Tag(kWritten));
    writing_ = true;
    ++under_way_;
  }
  void Read() {
    stream_->Read(&in_, Tag(kRead));
    ++under_way_;
  }
  grpc::Status Finish() {
    context_->TryCancel();  // in case only one direction has ended
    grpc::Status status;
    stream_->Finish(&status, Tag(kFinished));
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return status;
  }

  grpc::ClientContext* const context_;
  const std::unique_ptr<pb::Watch::Stub> stub_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<pb::WatchRequest, pb::WatchResponse>> stream_;
  pb::WatchRequest out_;
  pb::WatchResponse in_;
  int under_way_ = 0;    // operations whose tag has not come
  bool writing_ = true;  // nothing may be written yet: the start, or a message, is under way
};

KeyWatch::KeyWatch(std::shared_ptr<Members> members, std::string key, OnChange on_change)
    : members_(std::move(members)), key_(std::move(key)), on_change_(std::move(on_change)) {
  thread_.Post([this] { Run(); });
}

KeyWatch::~KeyWatch() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  if (context_ != nullptr) context_->TryCancel();
  stopped_.notify_all();
}

bool KeyWatch::Begin(grpc::ClientContext* context) {
  const std::lock_guard lock(mutex_);
  context_ = stop_ ? nullptr : context;
  return !stop_;
}

void KeyWatch::End() {
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
}

void KeyWatch::Run() {
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    const std::size_t index = members_->preferred();
    if (FollowOne(index)) pause = kFirstPause;
    members_->Leave(index);
    std::unique_lock lock(mutex_);
    if (stopped_.wait_for(lock, pause, [this] { return stop_; })) return;
    pause = std::min(2 * pause, kLastPause);
  }
}

bool KeyWatch::FollowOne(std::size_t index) {
  std::optional<std::int64_t> revision;
  {
    grpc::ClientContext context;
    const auto channel = members_->Prepare(index, Clock::now() + kPatience, &context);
    if (!channel.ok() || !Begin(&context)) return false;
    revision = Read(index, *channel, &context);
    End();
  }
  if (!revision) return false;
  grpc::ClientContext context;
  const auto channel = members_->Prepare(index, Clock::now() + kPatience, &context);
  if (!channel.ok() || !Begin(&context)) return true;
  Listen(index, *channel, &context, *revision + 1);
  End();
  return true;
}

std::optional<std::int64_t> KeyWatch::Read(std::size_t index, const Members::ChannelPtr& channel,
                                           grpc::ClientContext* context) {
  context->set_deadline(ToGrpc(Clock::now() + kPatience));
  pb::RangeRequest request;
  request.set_key(key_);
  pb::RangeResponse response;
  const grpc::Status status = pb::KV::NewStub(channel)->Range(context, request, &response);
  members_->OnAnswer(index, status);
  if (!status.ok()) return std::nullopt;
  KeyState state{response.header().cluster_id(), 0, std::nullopt};
  if (response.kvs_size() > 0) {
    state.mod_revision = static_cast<std::uint64_t>(response.kvs(0).mod_revision());
    state.value = std::move(*response.mutable_kvs(0)->mutable_value());
  }
  Tell(std::move(state));
  return response.header().revision();
}

void KeyWatch::Listen(std::size_t index, const Members::ChannelPtr& channel,
                      grpc::ClientContext* context, std::int64_t revision) {
  Stream stream(channel, context);
  const auto on_response = [&](pb::WatchResponse& response) {
    members_->OnAnswer(index, grpc::Status::OK);
    for (pb::Event& event : *response.mutable_events()) {
      KeyState state{response.header().cluster_id(), 0, std::nullopt};
      if (event.type() == pb::Event::PUT) {
        state.mod_revision = static_cast<std::uint64_t>(event.kv().mod_revision());
        state.value = std::move(*event.mutable_kv()->mutable_value());
      }
      Tell(std::move(state));
    }
    return !response.canceled();
  };
  members_->OnAnswer(index, stream.Follow(key_, revision, on_response));
}

void KeyWatch::Tell(KeyState state) {
  if (told_ == state) return;
  told_ = state;
  on_change_(state);
}

}  // namespace ddprun::etcd
