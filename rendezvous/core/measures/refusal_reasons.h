// The reasons for which a rendezvous refuses a call, a connection or a request: label `reason` of
// ddprun_refusals_total, and the names in `ddprun status --json`. Constants of the program, never
// texts of a peer. A new one needs a row in kRefusalReasons, and a word in docs/security.md.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_REFUSAL_REASONS_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_REFUSAL_REASONS_H_

namespace ddprun {
namespace refusal {

// ---- agents and commands, over gRPC ----
inline constexpr char kNoProof[] = "no_proof";        // no proof, or a proof of another scheme
inline constexpr char kWrongProof[] = "wrong_proof";  // a wrong token or credential
// A challenge that was used before, has expired, or belongs to another connection or rendezvous
inline constexpr char kStaleProof[] = "stale_proof";
inline constexpr char kRelayed[] = "relayed";  // a proof made for another connection
// No TLS, or a certificate of another authority
inline constexpr char kTlsHandshake[] = "tls_handshake";
inline constexpr char kOtherOwner[] = "other_owner";  // a job that belongs to somebody else
// By Refused: for example other settings, or an older requeue number
inline constexpr char kNotInThisJob[] = "not_in_this_job";
// A field out of bounds, or a first message other than Join
inline constexpr char kMalformed[] = "malformed";
inline constexpr char kNoJoin[] = "no_join";                   // a session without a Join for 10 s
inline constexpr char kTooManyStreams[] = "too_many_streams";  // from one address
inline constexpr char kTooManyAgents[] = "too_many_agents";    // in one job
inline constexpr char kTooManyJobs[] = "too_many_jobs";
inline constexpr char kTooManyJobsOfOwner[] = "too_many_jobs_of_owner";
// Calls that wait for MUNGE, and operators' calls
inline constexpr char kTooManyWaiting[] = "too_many_waiting";
inline constexpr char kTooManyFollowers[] = "too_many_followers";  // readers of the events
inline constexpr char kTooManyLogReaders[] = "too_many_log_readers";
inline constexpr char kNoDescriptors[] = "no_descriptors";  // this process has too few left
// Connections closed before they were read, for the same reason
inline constexpr char kConnectionsWithoutDescriptors[] = "connections_without_descriptors";

// ---- browsers and scrapers, over HTTP ----
inline constexpr char kHttpTlsHandshake[] = "http_tls_handshake";
inline constexpr char kHttpMalformed[] = "http_malformed";       // no HTTP, or a bad parameter
inline constexpr char kHttpTooLarge[] = "http_too_large";        // a head or a body
inline constexpr char kHttpTooSlow[] = "http_too_slow";          // an incomplete request
inline constexpr char kHttpSlowReader[] = "http_slow_reader";    // does not take the answer
inline constexpr char kHttpForeignHost[] = "http_foreign_host";  // a Host that is not this server
inline constexpr char kHttpNoSuchPage[] = "http_no_such_page";   // an unknown path or method
inline constexpr char kHttpCrossSite[] = "http_cross_site";      // from the page of another site
inline constexpr char kHttpNoSession[] = "http_no_session";      // no session, where one is needed
inline constexpr char kHttpWrongToken[] = "http_wrong_token";    // of no reader or session
inline constexpr char kHttpWrongCode[] = "http_wrong_code";      // used, too old, or made up
inline constexpr char kHttpCsrf[] = "http_csrf";                 // no CSRF token, or a wrong one
inline constexpr char kHttpContentType[] = "http_content_type";  // a body that is not JSON
inline constexpr char kHttpTooManyConnections[] = "http_too_many_connections";
inline constexpr char kHttpTooManyViewers[] = "http_too_many_viewers";
inline constexpr char kHttpTooManyLogs[] = "http_too_many_logs";
inline constexpr char kHttpTooManyWaiting[] = "http_too_many_waiting";  // requests for one answer

}  // namespace refusal

static const char* const kRefusalReasons[] = {
    refusal::kNoProof,
    refusal::kWrongProof,
    refusal::kStaleProof,
    refusal::kRelayed,
    refusal::kTlsHandshake,
    refusal::kOtherOwner,
    refusal::kNotInThisJob,
    refusal::kMalformed,
    refusal::kNoJoin,
    refusal::kTooManyStreams,
    refusal::kTooManyAgents,
    refusal::kTooManyJobs,
    refusal::kTooManyJobsOfOwner,
    refusal::kTooManyWaiting,
    refusal::kTooManyFollowers,
    refusal::kTooManyLogReaders,
    refusal::kNoDescriptors,
    refusal::kConnectionsWithoutDescriptors,
    refusal::kHttpTlsHandshake,
    refusal::kHttpMalformed,
    refusal::kHttpTooLarge,
    refusal::kHttpTooSlow,
    refusal::kHttpSlowReader,
    refusal::kHttpForeignHost,
    refusal::kHttpNoSuchPage,
    refusal::kHttpCrossSite,
    refusal::kHttpNoSession,
    refusal::kHttpWrongToken,
    refusal::kHttpWrongCode,
    refusal::kHttpCsrf,
    refusal::kHttpContentType,
    refusal::kHttpTooManyConnections,
    refusal::kHttpTooManyViewers,
    refusal::kHttpTooManyLogs,
    refusal::kHttpTooManyWaiting,
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_REFUSAL_REASONS_H_
