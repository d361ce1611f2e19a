// The transcript: the bytes that a token's HMAC or a MUNGE credential covers, as defined in
// proto/ddprun/v1/rendezvous.proto. Pure.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TRANSCRIPT_H_
#define DDPRUN_RENDEZVOUS_AUTH_TRANSCRIPT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "ddprun/v1/rendezvous.pb.h"

namespace ddprun::auth {

inline constexpr char kProofMetadata[] = "ddprun-auth-bin";
inline constexpr std::size_t kNonceBytes = 32;  // the client's
inline constexpr std::size_t kMaxServerNonceBytes = 64;
inline constexpr std::size_t kMaxProofBytes = 4096;  // of the serialized metadata
inline constexpr std::size_t kMaxNameBytes = 64;     // of a token's name
inline constexpr std::size_t kMaxServerCertificates = 4;

// The side that makes the proof.
enum class Side { kServer, kClient };

struct Exchange {
  v1::AuthScheme scheme = v1::AUTH_SCHEME_UNSPECIFIED;
  std::string_view name;
  std::string_view client_nonce;
  std::string_view server_nonce;
  // SHA-256 of certificates of the server. In the client's proof: of the certificate that the
  // client saw. In the server's proof: of all certificates that the client may have seen, one after
  // the other. Empty without TLS.
  std::string_view certificates;
};

// `method`: "Session", "ReportGone"; in the server's proof always "Handshake".
std::string Transcript(Side side, const Exchange& exchange, std::string_view method);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TRANSCRIPT_H_
