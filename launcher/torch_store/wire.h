// What clients of torch's TCPStore say on the wire: bytes become requests.
//
// There are two dialects. libtorch 1.13 and 2.0 send requests at once; libtorch 2.1 and newer first
// send a validation, and number the operations differently. The first bytes tell them apart.
//
// A request is one byte that names the operation, then its arguments. Numbers are in the order of
// the host, texts have their length before them as 64 bits. A list begins with how many there are,
// as 64 bits.
//
// Pure. Nothing of what arrives is trusted: lengths and counts are bounded before they are used.
#ifndef DDPRUN_LAUNCHER_TORCH_STORE_WIRE_H_
#define DDPRUN_LAUNCHER_TORCH_STORE_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ddprun::torch_store {

// Larger ones are refused. Programs of libtorch stay far below: a key has about 50 bytes.
inline constexpr std::size_t kMaxKeyBytes = 64UL << 10U;
inline constexpr std::size_t kMaxValueBytes = 64UL << 20U;
inline constexpr std::size_t kMaxKeysOfRequest = 128UL << 10U;

enum class Dialect {
  kAtOnce,     // libtorch 1.13 and 2.0
  kValidated,  // libtorch 2.1 and newer
};

enum class Operation {
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kCountKeys,
  kWatch,  // kAtOnce only
  kDelete,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,  // kValidated only
};

// The name that libtorch gives it.
absl::string_view ToString(Operation operation);

struct Request {
  Operation operation = Operation::kSet;
  // Keys and values in the order of the wire; they point into the bytes that were parsed.
  absl::InlinedVector<absl::string_view, 3> texts;
  std::int64_t number = 0;  // what ADD adds, what PING asks to be returned
};

struct ParsedRequest {
  Request request;
  std::size_t size = 0;  // in bytes
};

struct Greeting {
  Dialect dialect = Dialect::kAtOnce;
  std::size_t size = 0;  // bytes that are no request
};

// What a new client begins with. nullopt: more bytes are needed to tell.
std::optional<Greeting> ParseGreeting(absl::string_view bytes);

// The request that `bytes` begin with. nullopt: they are a part of one. The error names what is not
// accepted: an unknown operation, or what is too large.
absl::StatusOr<std::optional<ParsedRequest>> ParseRequest(Dialect dialect, absl::string_view bytes);

// The bytes of a text, and of a number, as clients expect them.
std::string EncodeText(absl::string_view text);
std::string EncodeNumber(std::int64_t number);

}  // namespace ddprun::torch_store

#endif  // DDPRUN_LAUNCHER_TORCH_STORE_WIRE_H_
