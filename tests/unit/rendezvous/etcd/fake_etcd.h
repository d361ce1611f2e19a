// An etcd of one member, in memory in this process. It serves over gRPC the calls that Client uses,
// except that of Ask(), and makes faults that are rare with a real etcd.
//
// Thread-safe. Ends its calls when it is destroyed.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_ETCD_FAKE_ETCD_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_ETCD_FAKE_ETCD_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "etcd/v3.grpc.pb.h"

namespace ddprun::etcd {

class FakeEtcd {
 public:
  static constexpr std::uint64_t kCluster = 0xC1;

  // The fault of one transaction that writes.
  struct Fault {
    bool effect = false;  // the transaction takes effect
    grpc::Status answer;  // the answer to the client
  };
  static grpc::Status TimedOut() {
    return {grpc::StatusCode::UNAVAILABLE, "etcdserver: request timed out"};
  }
  static grpc::Status NoSpace() {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"};
  }
  static grpc::Status NoLeader() {
    return {grpc::StatusCode::UNAVAILABLE, "etcdserver: no leader"};
  }

  FakeEtcd();
  ~FakeEtcd();
  FakeEtcd(const FakeEtcd&) = delete;
  FakeEtcd& operator=(const FakeEtcd&) = delete;

  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }

  // ---- as another client ----

  // Returns the mod_revision of the key.
  std::int64_t Put(const std::string& key, const std::string& value);
  void Delete(const std::string& key);
  // Gives the key another value at the same revision. After etcd was emptied, this may happen by
  // chance.
  void Replace(const std::string& key, const std::string& value);
  std::optional<std::string> Get(const std::string& key) const;
  std::vector<std::string> Keys(const std::string& prefix) const;

  // ---- faults ----

  // The fault of the next transaction that writes and has no fault yet.
  void Meet(Fault fault);
  // Refuses all transactions and reads with this answer, until it is set to nullopt.
  void RefuseAll(std::optional<grpc::Status> answer);
  // The same, but only for transactions that write, or only for reads.
  void RefuseWrites(std::optional<grpc::Status> answer);
  void RefuseReads(std::optional<grpc::Status> answer);
  // A delayed copy of a request arrives now. Returns whether its guards held.
  bool Replay(const etcdserverpb::TxnRequest& request);
  // Ends the streams of watches, like a member that has lost its leader.
  void EndWatches();
  // From now on the streams of watches stay open, and are silent.
  void Mute();
  // Like a restore from a fresh snapshot: the same data and revisions, but another cluster.
  void BecomeAnotherCluster();
  // From now on every transaction and read needs a token. Authenticate gives it to this user.
  void AskForToken(const std::string& user, const std::string& password);
  void ForgetTokens();

  // ---- what was asked ----

  std::vector<etcdserverpb::TxnRequest> writes() const;  // transactions that write
  int reads() const;  // calls of Range, and transactions that do not write
  int authentications() const;
  // Waits until this number of watches has begun.
  void WaitForWatches(int count) const;

 private:
  class Kv;
  class Watcher;
  class Auth;
  struct Entry {
    std::string value;
    std::int64_t mod_revision = 0;
  };
  struct Happened {  // for watches
    std::int64_t revision = 0;
    std::string key;
    std::optional<std::string> value;
  };

  // With the mutex held.
  void FillHeader(etcdserverpb::ResponseHeader* header) const;
  void Range(const etcdserverpb::RangeRequest& request,
             etcdserverpb::RangeResponse* response) const;
  void Execute(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse* response);
  void Change(const std::string& key, std::optional<std::string> value);
  std::optional<grpc::Status> Refusal(const grpc::ServerContext& context) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Guarded by mutex_.
  std::map<std::string, Entry> entries_;
  std::vector<Happened> history_;
  std::int64_t revision_ = 1;
  std::uint64_t cluster_ = kCluster;
  std::deque<Fault> faults_;
  std::optional<grpc::Status> refuse_all_;
  std::optional<grpc::Status> refuse_writes_;
  std::optional<grpc::Status> refuse_reads_;
  std::string user_, password_, token_;
  std::vector<etcdserverpb::TxnRequest> writes_;
  int reads_ = 0;
  int authentications_ = 0;
  int watches_ = 0;
  int watches_ended_ = 0;  // how many streams must end: the first ones
  bool mute_ = false;
  bool closing_ = false;

  int port_ = 0;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace ddprun::etcd

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_ETCD_FAKE_ETCD_H_
