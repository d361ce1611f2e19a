// The wire protocol of torch's TCPStore clients: parses bytes into requests.
//
// There are two dialects. libtorch 1.13 and 2.0 send requests at once; libtorch 2.1 and newer first
// send a validation, and number the operations differently. The first bytes show the dialect.
//
// A request is one byte for the operation, then its arguments. Numbers are in host byte order.
// Before each text stands its length, and before each list its count, both as 64 bits.
//
// Pure. Trusts no input: lengths and counts are bounded before use.
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

// Larger keys are refused. libtorch's keys are much smaller: about 50 bytes.
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

// The operation's name in libtorch.
absl::string_view ToString(Operation operation);

struct Request {
  Operation operation = Operation::kSet;
  // Keys and values in the order of the wire; they point into the bytes that were parsed.
  absl::InlinedVector<absl::string_view, 3> texts;
  std::int64_t number = 0;  // the addend of ADD, the number that PING returns
};

struct ParsedRequest {
  Request request;
  std::size_t size = 0;  // in bytes
};

struct Greeting {
  Dialect dialect = Dialect::kAtOnce;
  std::size_t size = 0;  // bytes of the greeting itself
};

// The greeting of a new client. nullopt: more bytes are needed.
std::optional<Greeting> ParseGreeting(absl::string_view bytes);

// The request at the front of `bytes`. nullopt: it is incomplete. The error names the unknown
// operation or the part that is too large.
absl::StatusOr<std::optional<ParsedRequest>> ParseRequest(Dialect dialect, absl::string_view bytes);

// The wire form of a text and of a number.
std::string EncodeText(absl::string_view text);
std::string EncodeNumber(std::int64_t number);

}  // namespace ddprun::torch_store

#endif  // DDPRUN_LAUNCHER_TORCH_STORE_WIRE_H_
