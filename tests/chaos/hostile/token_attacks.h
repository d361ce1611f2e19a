// Attacks on a rendezvous that asks for tokens. The attackers have no token, a wrong token, or the
// token of another owner. *Insiders* have the right token, and send malformed messages.
#ifndef DDPRUN_TESTS_CHAOS_HOSTILE_TOKEN_ATTACKS_H_
#define DDPRUN_TESTS_CHAOS_HOSTILE_TOKEN_ATTACKS_H_

#include <chrono>
#include <memory>
#include <random>
#include <string>

#include "rendezvous/auth/client_credentials.h"
#include "tests/chaos/hostile/grpc_client.h"
#include "tests/chaos/hostile/live_job.h"
#include "tests/chaos/hostile/verdicts.h"

namespace ddprun {

class TokenAttacks {
 public:
  explicit TokenAttacks(const LiveJob* job)
      : endpoint_(job->endpoint()),
        owner_(Load(job->folder() + "/ann")),
        other_(Load(job->folder() + "/bob")),
        wrong_(Load(job->folder() + "/wrong")) {}

  void NoProof(Verdicts& verdicts) const;
  void NoProofReport(Verdicts& verdicts) const;
  void WrongToken(Verdicts& verdicts) const;
  void Replay(Verdicts& verdicts) const;
  void OtherOwner(Verdicts& verdicts) const;
  void OddMetadata(Verdicts& verdicts, std::mt19937_64& random) const;
  void OddHandshake(Verdicts& verdicts, std::mt19937_64& random) const;
  void Malformed(Verdicts& verdicts, std::mt19937_64& random) const;
  void Oversized(Verdicts& verdicts) const;
  void NoJoin(Verdicts& verdicts) const;

 private:
  using Credentials = std::shared_ptr<const auth::ClientCredentials>;

  static std::chrono::system_clock::time_point Deadline();
  static Credentials Load(const std::string& path);
  static void Authorize(const auth::ClientCredentials& credentials, RendezvousStub& stub,
                        grpc::ClientContext* context);

  const std::string endpoint_;
  const Credentials owner_;
  const Credentials other_;
  const Credentials wrong_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_CHAOS_HOSTILE_TOKEN_ATTACKS_H_
