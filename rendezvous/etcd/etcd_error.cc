#include "rendezvous/etcd/etcd_error.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ddprun::etcd {
namespace {

// What etcd answers, and what that means for the call.
struct Known {
  absl::string_view words;
  absl::StatusCode code;
  absl::string_view advice;
};

constexpr Known kKnown[] = {
    // Refused by the member before it proposed anything.
    {"etcdserver: no leader", absl::StatusCode::kAborted,
     ": it has lost the majority of its cluster, or an election is under way"},
    {"etcdserver: too many requests", absl::StatusCode::kAborted, ""},
    {"etcdserver: rpc not supported for learner", absl::StatusCode::kAborted, ""},
    {"etcdserver: corrupt cluster", absl::StatusCode::kAborted,
     ": its members differ; see etcd's documentation on the alarm CORRUPT"},
    // etcd checks before it proposes, and again after it has carried the transaction out.
    {"database space exceeded", absl::StatusCode::kUnknown,
     ": NOSPACE: compact and defragment it, or raise --quota-backend-bytes, then `etcdctl alarm "
     "disarm`"},
    {"user name is empty", absl::StatusCode::kUnauthenticated,
     ": etcd requires a user: give --etcd-user and --etcd-password-file"},
    {"authentication failed", absl::StatusCode::kUnauthenticated,
     ": check --etcd-user and --etcd-password-file"},
    {"permission denied", absl::StatusCode::kPermissionDenied,
     ": grant the role of --etcd-user read and write on the keys that begin with --etcd-prefix"},
};

absl::string_view WhyClosed(OurSide side) {
  switch (side) {
    case OurSide::kPlain:
      return "this port speaks TLS (give --etcd-ca)";
    case OurSide::kTls:
      return "it asks for a certificate (give --etcd-cert and --etcd-key), or does not speak TLS";
    case OurSide::kTlsWithCertificate:
      return "it does not take the certificate in --etcd-cert, or does not speak TLS";
  }
  return "";
}

bool IsFinal(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status ErrorOf(const std::string& endpoint, const grpc::Status& status) {
  const std::string& words = status.error_message();
  for (const Known& known : kKnown) {
    if (!absl::StrContains(words, known.words)) continue;
    return absl::Status(known.code, absl::StrCat(endpoint, ": ", words, known.advice));
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnknownError(absl::StrCat(endpoint, ": no answer in time"));
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return absl::UnimplementedError(absl::StrCat(endpoint,
                                                 ": this is no etcd of version 3.4 or "
                                                 "newer (",
                                                 words, ")"));
  }
  // gRPC's own limit of a message, on either side.
  const bool too_large = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
                         absl::StrContains(words, "larger than max");
  const auto code = too_large ? absl::StatusCode::kInvalidArgument
                    : IsFinal(status.error_code())
                        ? static_cast<absl::StatusCode>(status.error_code())
                        : absl::StatusCode::kUnknown;
  return absl::Status(code, absl::StrCat(endpoint, ": ", words));
}

bool IsTokenRefused(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "invalid auth token") ||
         absl::StrContains(status.error_message(), "revision of auth store is old");
}

absl::Status NotConnected(const std::string& endpoint, absl::string_view message, OurSide side) {
  const auto has = [&](absl::string_view words) { return absl::StrContains(message, words); };
  const auto untrusted = [&](absl::string_view why) {
    return absl::UnauthenticatedError(absl::StrCat(endpoint, ": ", why));
  };
  if (has("wrong version number")) {
    return untrusted("it does not speak TLS: leave --etcd-ca out, or give etcd certificates");
  }
  if (has("certificate verify failed")) {
    return untrusted("its certificate has expired, or is not of the authority in --etcd-ca");
  }
  if (has("Hostname Verification") || has("not in peer certificate") || has("Cannot check peer")) {
    return untrusted("its certificate is for another host");
  }
  const std::size_t colon = message.rfind(": ");
  if (colon != absl::string_view::npos) message.remove_prefix(colon + 2);
  std::string why = absl::AsciiStrToLower(message);
  // With TLS 1.3, a client sees a refused handshake only as a closed connection.
  if (has("Socket closed") || has("ndpoint read failed") || has("onnection reset")) {
    absl::StrAppend(&why, ": if that stays so, ", WhyClosed(side),
                    ", or this is not its port for clients");
  }
  return absl::AbortedError(absl::StrCat(endpoint, ": ", why));
}

}  // namespace ddprun::etcd
