// Counts what a rendezvous refused since its start, by reason.
//
// Thread-safe. Bounded: the reasons are constants of the program, never texts of a peer.
#ifndef DDPRUN_RENDEZVOUS_AUTH_REFUSAL_COUNTERS_H_
#define DDPRUN_RENDEZVOUS_AUTH_REFUSAL_COUNTERS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace ddprun {

// The reasons. A new one needs a word in docs/security.md.
namespace refusal {
inline constexpr char kNoProof[] = "no_proof";        // no proof, or a proof of another scheme
inline constexpr char kWrongProof[] = "wrong_proof";  // a wrong token or credential
// A challenge that was used, expired or made by another rendezvous
inline constexpr char kStaleProof[] = "stale_proof";
inline constexpr char kRelayed[] = "relayed";  // a proof made for another connection
// No TLS, or a certificate of another authority
inline constexpr char kTlsHandshake[] = "tls_handshake";
inline constexpr char kOtherOwner[] = "other_owner";  // a job that belongs to somebody else
inline constexpr char kNotInThisJob[] =
    "not_in_this_job";  // other settings, or an older requeue number
// A field out of bounds, or a first message other than Join
inline constexpr char kMalformed[] = "malformed";
inline constexpr char kNoJoin[] = "no_join";                   // a session without a Join for 10 s
inline constexpr char kTooManyStreams[] = "too_many_streams";  // from one address
inline constexpr char kTooManyAgents[] = "too_many_agents";    // in one job
inline constexpr char kTooManyJobs[] = "too_many_jobs";
inline constexpr char kTooManyJobsOfOwner[] = "too_many_jobs_of_owner";
inline constexpr char kTooManyWaiting[] = "too_many_waiting";      // calls that wait for MUNGE
inline constexpr char kTooManyFollowers[] = "too_many_followers";  // readers of the events
inline constexpr char kTooManyLogReaders[] = "too_many_log_readers";
inline constexpr char kNoDescriptors[] = "no_descriptors";  // this process has too few left
}  // namespace refusal

class RefusalCounters {
 public:
  using Log = std::function<void(const std::string& text)>;
  using Clock = std::chrono::steady_clock;

  // `log` gets the first refusal of each reason, then one line each time the count has doubled, and
  // at most one per minute while refusals continue. May be empty; must not call this object.
  explicit RefusalCounters(Log log = {});

  // `detail`: who and why, for the log.
  void Count(std::string_view reason, std::string_view detail, Clock::time_point now);
  void Count(std::string_view reason, std::string_view detail) {
    Count(reason, detail, Clock::now());
  }

  std::map<std::string, std::uint64_t> Snapshot() const;

 private:
  struct Entry {
    std::uint64_t count = 0;
    Clock::time_point logged;
  };

  const Log log_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;  // guarded by mutex_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_AUTH_REFUSAL_COUNTERS_H_
