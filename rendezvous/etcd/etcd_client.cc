#include "rendezvous/etcd/etcd_client.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "etcd/v3.grpc.pb.h"
#include "rendezvous/etcd/etcd_members.h"
#include "rendezvous/etcd/etcd_watch.h"

namespace ddprun::etcd {
namespace {

namespace pb = etcdserverpb;
using ChannelPtr = Members::ChannelPtr;

// Of List: with values of 256 KiB a page is 16 MiB.
constexpr int kPage = 64;

KeyValue FromProto(pb::KeyValue& kv) {
  return {std::move(*kv.mutable_key()), std::move(*kv.mutable_value()),
          static_cast<std::uint64_t>(kv.mod_revision())};
}

// The first key that does not begin with `prefix`; "\0": there is none.
std::string EndOf(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');
  ++prefix.back();
  return prefix;
}

pb::TxnRequest TxnOf(const std::vector<Guard>& guards, const std::vector<Write>& writes,
                     const std::vector<std::string>& reads) {
  pb::TxnRequest txn;
  for (const Guard& guard : guards) {
    pb::Compare* const compare = txn.add_compare();
    compare->set_result(pb::Compare::EQUAL);
    compare->set_target(pb::Compare::MOD);
    compare->set_key(guard.key);
    compare->set_mod_revision(static_cast<std::int64_t>(guard.mod_revision));
    if (!guard.value) continue;
    pb::Compare* const same = txn.add_compare();
    same->set_result(pb::Compare::EQUAL);
    same->set_target(pb::Compare::VALUE);
    same->set_key(guard.key);
    same->set_value(*guard.value);
  }
  for (const Write& write : writes) {
    pb::RequestOp* const op = txn.add_success();
    if (write.value) {
      op->mutable_request_put()->set_key(write.key);
      op->mutable_request_put()->set_value(*write.value);
    } else {
      op->mutable_request_delete_range()->set_key(write.key);
    }
  }
  for (const std::string& key : reads) {
    txn.add_success()->mutable_request_range()->set_key(key);
    txn.add_failure()->mutable_request_range()->set_key(key);
  }
  return txn;
}

class GrpcClient final : public Client {
 public:
  explicit GrpcClient(std::shared_ptr<Members> members) : members_(std::move(members)) {}

  absl::StatusOr<Answer> Transact(const std::vector<Guard>& guards,
                                  const std::vector<Write>& writes,
                                  const std::vector<std::string>& reads,
                                  std::chrono::milliseconds limit) override {
    const pb::TxnRequest request = TxnOf(guards, writes, reads);
    pb::TxnResponse response;
    const absl::Status status = members_->Call(
        writes.empty(), limit, [&](const ChannelPtr& channel, grpc::ClientContext* context) {
          response.Clear();
          return pb::KV::NewStub(channel)->Txn(context, request, &response);
        });
    if (!status.ok()) return status;
    Answer answer{response.succeeded(),
                  response.header().cluster_id(),
                  static_cast<std::uint64_t>(response.header().revision()),
                  {}};
    for (pb::ResponseOp& op : *response.mutable_responses()) {
      if (!op.has_response_range()) continue;
      for (pb::KeyValue& kv : *op.mutable_response_range()->mutable_kvs()) {
        answer.found.push_back(FromProto(kv));
      }
    }
    return answer;
  }

  absl::StatusOr<Answer> List(const std::string& prefix, bool keys_only,
                              std::chrono::milliseconds limit) override {
    const auto end = std::chrono::steady_clock::now() + limit;
    pb::RangeRequest request;
    request.set_key(prefix);
    request.set_range_end(EndOf(prefix));
    request.set_limit(kPage);
    request.set_keys_only(keys_only);
    Answer all;
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      pb::RangeResponse response;
      const absl::Status status =
          members_->Call(true, left, [&](const ChannelPtr& channel, grpc::ClientContext* context) {
            response.Clear();
            return pb::KV::NewStub(channel)->Range(context, request, &response);
          });
      if (absl::StrContains(status.message(), "compacted") && request.revision() > 0) {
        request.set_revision(0);  // compacted since the first page: from the beginning
        request.set_key(prefix);
        all = {};
        continue;
      }
      if (!status.ok()) return status;
      if (request.revision() == 0) {
        request.set_revision(response.header().revision());
        all.guarded = true;
        all.cluster = response.header().cluster_id();
        all.revision = static_cast<std::uint64_t>(response.header().revision());
      }
      for (pb::KeyValue& kv : *response.mutable_kvs()) all.found.push_back(FromProto(kv));
      if (!response.more()) return all;
      request.set_key(absl::StrCat(all.found.back().key, absl::string_view("\0", 1)));
    }
  }

  absl::StatusOr<MemberStatus> Ask(const std::string& endpoint,
                                   std::chrono::milliseconds limit) override {
    pb::StatusResponse response;
    const absl::Status status = members_->CallOne(
        endpoint, limit, [&](const ChannelPtr& channel, grpc::ClientContext* context) {
          return pb::Maintenance::NewStub(channel)->Status(context, {}, &response);
        });
    if (!status.ok()) return status;
    MemberStatus member{endpoint,
                        response.version(),
                        response.header().cluster_id(),
                        response.header().member_id(),
                        response.leader(),
                        static_cast<std::uint64_t>(response.header().revision()),
                        response.dbsize(),
                        {}};
    for (const char* const alarm : {"NOSPACE", "CORRUPT"}) {
      for (const std::string& error : response.errors()) {
        if (!absl::StrContains(error, alarm)) continue;
        member.alarms.push_back(alarm);
        break;
      }
    }
    return member;
  }

  std::unique_ptr<Watch> WatchKey(const std::string& key, Watch::OnChange on_change) override {
    return std::make_unique<KeyWatch>(members_, key, std::move(on_change));
  }

 private:
  const std::shared_ptr<Members> members_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const Options& options) {
  auto members = Members::Create(options);
  if (!members.ok()) return members.status();
  return std::make_unique<GrpcClient>(*std::move(members));
}

}  // namespace ddprun::etcd
