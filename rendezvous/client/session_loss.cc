#include "rendezvous/client/session_loss.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/client/connect_error.h"

namespace ddprun {
namespace {

// gRPC reports a refused connection only in its text. A text from a proxy or a server is never
// taken for a refusal.
bool IsConnectionRefused(const std::string& text) {
  return absl::StrContains(text, "Failed to connect to remote host") &&
         RootOfError(text) == RootOfError(strerror(ECONNREFUSED));
}

// A reset connection may also mean that the rendezvous had no descriptor left. Without a
// certificate of this agent, a reset does not count as a refusal of the certificate.
bool IsOverOurCertificate(const SessionFacts& facts, const std::string& text) {
  using Tls = auth::ClientCredentials::Transport::Tls;
  return facts.tls == Tls::kVerified ||
         (facts.tls == Tls::kUnverified && absl::StrContains(text, "Socket closed"));
}

// There was no connection, or it was lost.
void ExplainUnavailable(const SessionFacts& facts, const std::string& text,
                        RendezvousClient::Lost* lost) {
  const std::string there = absl::StrCat("the rendezvous at ", facts.endpoint);
  if (const auto said = SaidByRendezvous(text)) {
    lost->reason = absl::StrCat(there, " ", *said);
    return;
  }
  const bool closed = IsClosedByPeer(text);
  if (facts.connected) {
    lost->reason = absl::StrCat("lost ", there, ": ", text);
    return;
  }
  lost->refused = IsConnectionRefused(text);
  if (const auto trouble = TlsTrouble(text)) {
    lost->reason = absl::StrCat("no trusted connection to ", there, ": ", *trouble);
    lost->denied = !facts.tries_another;
  } else if (closed && IsOverOurCertificate(facts, text)) {
    lost->reason = absl::StrCat(there,
                                " closes the connection after TLS: the certificate of this side "
                                "(--tls-cert) is missing, has expired, or is from an authority "
                                "that it does not trust");
    lost->closed_after_tls = true;
  } else {
    lost->reason = absl::StrCat("cannot reach ", there, ": ", RootOfError(text),
                                closed ? "; does it ask for TLS (--tls-ca)?" : "");
  }
}

}  // namespace

RendezvousClient::Lost ExplainLoss(const SessionFacts& facts, const grpc::Status& status) {
  const std::string there = absl::StrCat("the rendezvous at ", facts.endpoint);
  const std::string& text = status.error_message();
  RendezvousClient::Lost lost;
  lost.attempt_started_at = facts.attempt_started_at;
  if (facts.failure) {
    lost.reason = facts.failure->reason;
    lost.denied = facts.failure->denied;
    lost.denied_everywhere = facts.failure->denied_everywhere;
    return lost;
  }
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      lost.reason = absl::StrCat(there, " ended the session");
      break;
    case grpc::StatusCode::PERMISSION_DENIED:
      lost.reason = absl::StrCat(there, " refuses this agent: ", text);
      lost.denied = true;
      break;
    case grpc::StatusCode::UNAUTHENTICATED:
      lost.reason = absl::StrCat(there, " refuses this agent: ", text);
      // If the rendezvous has proven that it knows the secret, only the challenge can be wrong: it
      // came back too late, or is from before a restart of the rendezvous.
      lost.denied = !facts.genuine;
      break;
    case grpc::StatusCode::FAILED_PRECONDITION:
      lost.reason = absl::StrCat(there, " cannot authenticate this agent: ", text);
      lost.denied = lost.denied_everywhere = true;
      break;
    case grpc::StatusCode::UNAVAILABLE:
      ExplainUnavailable(facts, text, &lost);
      break;
    default:
      lost.reason = absl::StrCat("the session with ", there, " ended: ", text);
  }
  return lost;
}

}  // namespace ddprun
