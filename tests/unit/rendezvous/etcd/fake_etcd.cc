#include "tests/unit/rendezvous/etcd/fake_etcd.h"

#include <climits>
#include <thread>
#include <utility>

namespace ddprun::etcd {
namespace {

namespace pb = etcdserverpb;

bool Writes(const pb::TxnRequest& request) {
  for (const pb::RequestOp& op : request.success()) {
    if (!op.has_request_range()) return true;
  }
  return false;
}

}  // namespace

class FakeEtcd::Kv final : public pb::KV::Service {
 public:
  explicit Kv(FakeEtcd* etcd) : etcd_(*etcd) {}

  grpc::Status Range(grpc::ServerContext* context, const pb::RangeRequest* request,
                     pb::RangeResponse* response) override {
    const std::lock_guard lock(etcd_.mutex_);
    ++etcd_.reads_;
    if (auto refusal = etcd_.Refusal(*context)) return *refusal;
    if (etcd_.refuse_reads_) return *etcd_.refuse_reads_;
    etcd_.Range(*request, response);
    return grpc::Status::OK;
  }

  grpc::Status Txn(grpc::ServerContext* context, const pb::TxnRequest* request,
                   pb::TxnResponse* response) override {
    const std::lock_guard lock(etcd_.mutex_);
    if (auto refusal = etcd_.Refusal(*context)) return *refusal;
    if (!Writes(*request)) {
      ++etcd_.reads_;
      if (etcd_.refuse_reads_) return *etcd_.refuse_reads_;
      etcd_.Execute(*request, response);
      return grpc::Status::OK;
    }
    etcd_.writes_.push_back(*request);
    if (etcd_.refuse_writes_) return *etcd_.refuse_writes_;
    Fault fault{true, grpc::Status::OK};
    if (!etcd_.faults_.empty()) {
      fault = std::move(etcd_.faults_.front());
      etcd_.faults_.pop_front();
    }
    if (fault.effect) etcd_.Execute(*request, response);
    etcd_.changed_.notify_all();
    return fault.answer;
  }

 private:
  FakeEtcd& etcd_;
};

class FakeEtcd::Watcher final : public pb::Watch::Service {
 public:
  explicit Watcher(FakeEtcd* etcd) : etcd_(*etcd) {}

  grpc::Status Watch(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<pb::WatchResponse, pb::WatchRequest>* stream) override {
    pb::WatchRequest create;
    if (!stream->Read(&create)) return grpc::Status::OK;
    int questions = 1;  // not answered yet, including the creation; guarded by the mutex
    bool gone = false;  // guarded by the mutex
    std::thread reader([&] {
      pb::WatchRequest request;
      while (stream->Read(&request)) {
        const std::lock_guard lock(etcd_.mutex_);
        ++questions;
        etcd_.changed_.notify_all();
      }
      const std::lock_guard lock(etcd_.mutex_);
      gone = true;
      etcd_.changed_.notify_all();
    });
    std::unique_lock lock(etcd_.mutex_);
    const int number = ++etcd_.watches_;
    std::int64_t next = create.create_request().start_revision();
    etcd_.changed_.notify_all();
    for (;;) {
      const auto ended = [&] { return etcd_.closing_ || number <= etcd_.watches_ended_; };
      const auto news = [&] { return questions > 0 || etcd_.revision_ >= next; };
      etcd_.changed_.wait(lock, [&] { return gone || ended() || (!etcd_.mute_ && news()); });
      if (gone) break;
      pb::WatchResponse response;
      etcd_.FillHeader(response.mutable_header());
      if (ended()) {
        response.set_canceled(true);
        response.set_cancel_reason("etcdserver: no leader");
        stream->Write(response);
        break;
      }
      questions = 0;
      for (const Happened& happened : etcd_.history_) {
        if (happened.revision < next || happened.key != create.create_request().key()) continue;
        pb::Event* const event = response.add_events();
        event->set_type(happened.value ? pb::Event::PUT : pb::Event::DELETE);
        event->mutable_kv()->set_key(happened.key);
        event->mutable_kv()->set_value(happened.value.value_or(""));
        event->mutable_kv()->set_mod_revision(happened.revision);
      }
      next = etcd_.revision_ + 1;
      stream->Write(response);
    }
    lock.unlock();
    context->TryCancel();
    reader.join();
    return grpc::Status::OK;
  }

 private:
  FakeEtcd& etcd_;
};

class FakeEtcd::Auth final : public pb::Auth::Service {
 public:
  explicit Auth(FakeEtcd* etcd) : etcd_(*etcd) {}

  grpc::Status Authenticate(grpc::ServerContext*, const pb::AuthenticateRequest* request,
                            pb::AuthenticateResponse* response) override {
    const std::lock_guard lock(etcd_.mutex_);
    ++etcd_.authentications_;
    if (etcd_.user_.empty()) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "etcdserver: authentication is not enabled"};
    }
    if (request->name() != etcd_.user_ || request->password() != etcd_.password_) {
      return {grpc::StatusCode::INVALID_ARGUMENT,
              "etcdserver: authentication failed, invalid user ID or password"};
    }
    etcd_.token_ = "token." + std::to_string(etcd_.authentications_);
    response->set_token(etcd_.token_);
    return grpc::Status::OK;
  }

 private:
  FakeEtcd& etcd_;
};

FakeEtcd::FakeEtcd() {
  services_.push_back(std::make_unique<Kv>(this));
  services_.push_back(std::make_unique<Watcher>(this));
  services_.push_back(std::make_unique<Auth>(this));
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.SetMaxReceiveMessageSize(INT_MAX);
  for (const auto& service : services_) builder.RegisterService(service.get());
  server_ = builder.BuildAndStart();
}

FakeEtcd::~FakeEtcd() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  server_->Shutdown(std::chrono::system_clock::now());
}

std::int64_t FakeEtcd::Put(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  ++revision_;
  Change(key, value);
  return revision_;
}

void FakeEtcd::Delete(const std::string& key) {
  const std::lock_guard lock(mutex_);
  ++revision_;
  Change(key, std::nullopt);
}

std::optional<std::string> FakeEtcd::Get(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? std::nullopt : std::optional(entry->second.value);
}

std::vector<std::string> FakeEtcd::Keys(const std::string& prefix) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries_) {
    if (key.compare(0, prefix.size(), prefix) == 0) keys.push_back(key);
  }
  return keys;
}

void FakeEtcd::Replace(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  entries_.at(key).value = value;
}

void FakeEtcd::Meet(Fault fault) {
  const std::lock_guard lock(mutex_);
  faults_.push_back(std::move(fault));
}

void FakeEtcd::RefuseAll(std::optional<grpc::Status> answer) {
  const std::lock_guard lock(mutex_);
  refuse_all_ = std::move(answer);
}

void FakeEtcd::RefuseWrites(std::optional<grpc::Status> answer) {
  const std::lock_guard lock(mutex_);
  refuse_writes_ = std::move(answer);
}

void FakeEtcd::RefuseReads(std::optional<grpc::Status> answer) {
  const std::lock_guard lock(mutex_);
  refuse_reads_ = std::move(answer);
}

bool FakeEtcd::Replay(const pb::TxnRequest& request) {
  const std::lock_guard lock(mutex_);
  pb::TxnResponse response;
  Execute(request, &response);
  return response.succeeded();
}

void FakeEtcd::EndWatches() {
  const std::lock_guard lock(mutex_);
  watches_ended_ = watches_;
  changed_.notify_all();
}

void FakeEtcd::Mute() {
  const std::lock_guard lock(mutex_);
  mute_ = true;
}

void FakeEtcd::AskForToken(const std::string& user, const std::string& password) {
  const std::lock_guard lock(mutex_);
  user_ = user;
  password_ = password;
}

void FakeEtcd::ForgetTokens() {
  const std::lock_guard lock(mutex_);
  token_.clear();
}

void FakeEtcd::BecomeAnotherCluster() {
  const std::lock_guard lock(mutex_);
  ++cluster_;
}

std::vector<pb::TxnRequest> FakeEtcd::writes() const {
  const std::lock_guard lock(mutex_);
  return writes_;
}

int FakeEtcd::reads() const {
  const std::lock_guard lock(mutex_);
  return reads_;
}

int FakeEtcd::authentications() const {
  const std::lock_guard lock(mutex_);
  return authentications_;
}

void FakeEtcd::WaitForWatches(int count) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return watches_ >= count; });
}

void FakeEtcd::FillHeader(pb::ResponseHeader* header) const {
  header->set_cluster_id(cluster_);
  header->set_member_id(1);
  header->set_revision(revision_);
}

void FakeEtcd::Range(const pb::RangeRequest& request, pb::RangeResponse* response) const {
  FillHeader(response->mutable_header());
  for (auto entry = entries_.lower_bound(request.key()); entry != entries_.end(); ++entry) {
    if (request.range_end().empty() ? entry->first != request.key()
                                    : entry->first >= request.range_end()) {
      break;
    }
    if (request.limit() > 0 && response->kvs_size() == request.limit()) {
      response->set_more(true);
      break;
    }
    pb::KeyValue* const kv = response->add_kvs();
    kv->set_key(entry->first);
    if (!request.keys_only()) kv->set_value(entry->second.value);
    kv->set_mod_revision(entry->second.mod_revision);
  }
}

void FakeEtcd::Execute(const pb::TxnRequest& request, pb::TxnResponse* response) {
  bool holds = true;
  for (const pb::Compare& compare : request.compare()) {
    const auto entry = entries_.find(compare.key());
    if (compare.target() == pb::Compare::VALUE) {
      holds = holds && entry != entries_.end() && entry->second.value == compare.value();
      continue;
    }
    holds = holds &&
            (entry == entries_.end() ? 0 : entry->second.mod_revision) == compare.mod_revision();
  }
  response->set_succeeded(holds);
  if (holds && Writes(request)) ++revision_;
  for (const pb::RequestOp& op : holds ? request.success() : request.failure()) {
    pb::ResponseOp* const answer = response->add_responses();
    if (op.has_request_range()) {
      Range(op.request_range(), answer->mutable_response_range());
    } else if (op.has_request_put()) {
      Change(op.request_put().key(), op.request_put().value());
      answer->mutable_response_put();
    } else {
      Change(op.request_delete_range().key(), std::nullopt);
      answer->mutable_response_delete_range();
    }
  }
  FillHeader(response->mutable_header());
}

void FakeEtcd::Change(const std::string& key, std::optional<std::string> value) {
  if (value) {
    entries_[key] = {*value, revision_};
  } else {
    entries_.erase(key);
  }
  history_.push_back({revision_, key, std::move(value)});
  changed_.notify_all();
}

std::optional<grpc::Status> FakeEtcd::Refusal(const grpc::ServerContext& context) const {
  if (refuse_all_) return refuse_all_;
  if (user_.empty()) return std::nullopt;
  const auto shown = context.client_metadata().find("token");
  if (shown == context.client_metadata().end()) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "etcdserver: user name is empty");
  }
  if (token_.empty() || shown->second != token_) {
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "etcdserver: invalid auth token");
  }
  return std::nullopt;
}

}  // namespace ddprun::etcd
