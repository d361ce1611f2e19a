// What a proof is about: the bytes that a token's HMAC or a MUNGE credential covers, as
// proto/ddprun/v1/rendezvous.proto defines them. Pure.
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
inline constexpr std::size_t kMaxProofBytes = 4096;  // of the metadata, serialized
inline constexpr std::size_t kMaxNameBytes = 64;     // of a token
inline constexpr std::size_t kMaxServerCertificates = 4;

// Which side of a call proves.
enum class Side { kServer, kClient };

struct Exchange {
  v1::AuthScheme scheme = v1::AUTH_SCHEME_UNSPECIFIED;
  std::string_view name;
  std::string_view client_nonce;
  std::string_view server_nonce;
  // SHA-256 of the server's certificate that the client has seen; of the server's proof, of all
  // that it may have seen, one after the other. Empty without TLS.
  std::string_view certificates;
};

// `method`: "Session", "ReportGone"; of the server's proof always "Handshake".
std::string Transcript(Side side, const Exchange& exchange, std::string_view method);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TRANSCRIPT_H_
