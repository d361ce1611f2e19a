#include "launcher/torch_store/wire.h"

#include <cstring>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ddprun::torch_store {
namespace {

constexpr std::uint8_t kValidate = 0;  // an operation of kValidated: the first one
constexpr std::uint32_t kValidationNumber = 0x3C85F7CE;

// An operation and its arguments: k a key, v a value, i 64 bits, u 32 bits, * a list of what
// follows.
struct Grammar {
  Operation operation;
  absl::string_view arguments;
};

constexpr Grammar kSet{Operation::kSet, "kv"};
constexpr Grammar kCompareSet{Operation::kCompareSet, "kvv"};
constexpr Grammar kGet{Operation::kGet, "k"};
constexpr Grammar kAdd{Operation::kAdd, "ki"};
constexpr Grammar kCheck{Operation::kCheck, "*k"};
constexpr Grammar kWait{Operation::kWait, "*k"};
constexpr Grammar kCountKeys{Operation::kCountKeys, ""};
constexpr Grammar kWatch{Operation::kWatch, "k"};
constexpr Grammar kDelete{Operation::kDelete, "k"};
constexpr Grammar kAppend{Operation::kAppend, "kv"};
constexpr Grammar kMultiGet{Operation::kMultiGet, "*k"};
constexpr Grammar kMultiSet{Operation::kMultiSet, "*kv"};
constexpr Grammar kCancelWait{Operation::kCancelWait, ""};
constexpr Grammar kPing{Operation::kPing, "u"};

// Indexed by the byte on the wire. libtorch 1.13 ends with DELETE_KEY; 2.0 added the others.
constexpr Grammar kAtOnce[] = {kSet,      kCompareSet, kGet,       kAdd,    kCheck,
                               kWait,     kCountKeys,  kWatch,     kDelete, kAppend,
                               kMultiGet, kMultiSet,   kCancelWait};
// Indexed from 1: 0 is the validation.
constexpr Grammar kValidated[] = {kSet,      kCompareSet, kGet,    kAdd,    kCheck,
                                  kWait,     kCountKeys,  kDelete, kAppend, kMultiGet,
                                  kMultiSet, kCancelWait, kPing};
// Operations of libtorch 2.7 and newer, numbered after PING.
constexpr absl::string_view kNewerNames[] = {"QUEUE_PUSH", "QUEUE_POP", "QUEUE_LEN", "LIST_KEYS"};

constexpr absl::string_view kNames[] = {
    "SET",       "COMPARE_SET", "GET",    "ADD",       "CHECK",     "WAIT",        "GETNUMKEYS",
    "WATCH_KEY", "DELETE_KEY",  "APPEND", "MULTI_GET", "MULTI_SET", "CANCEL_WAIT", "PING"};

template <typename Number>
void AppendTo(Number number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

absl::Status UnknownOperation(Dialect dialect, std::uint8_t byte) {
  const std::size_t newer = byte - std::size(kValidated) - 1;
  if (dialect == Dialect::kValidated && byte > std::size(kValidated) &&
      newer < std::size(kNewerNames)) {
    return absl::UnimplementedError(
        absl::StrCat("the operation ", kNewerNames[newer], " of libtorch 2.7 and newer"));
  }
  return absl::UnimplementedError(absl::StrCat("the unknown operation ", int{byte}));
}

absl::StatusOr<Grammar> GrammarOf(Dialect dialect, std::uint8_t byte) {
  if (dialect == Dialect::kAtOnce) {
    if (byte < std::size(kAtOnce)) return kAtOnce[byte];
  } else if (byte == kValidate) {
    return absl::InvalidArgumentError("a second validation");
  } else if (byte <= std::size(kValidated)) {
    return kValidated[byte - 1];
  }
  return UnknownOperation(dialect, byte);
}

// Reads arguments from the front of bytes.
class ArgumentReader {
 public:
  ArgumentReader(Operation operation, absl::string_view bytes)
      : operation_(operation), bytes_(bytes) {}

  // The readers return false if bytes are missing or there are too many; in the latter case
  // status() is set.
  template <typename Number>
  bool Read(Number* number) {
    if (bytes_.size() - at_ < sizeof(*number)) return false;
    std::memcpy(number, bytes_.data() + at_, sizeof(*number));
    at_ += sizeof(*number);
    return true;
  }

  bool ReadText(std::size_t limit, absl::string_view what, absl::string_view* text) {
    std::uint64_t size = 0;
    if (!Read(&size)) return false;
    if (size > limit) return Refuse(absl::StrCat("a ", what, " of ", size, " bytes"), limit);
    if (bytes_.size() - at_ < size) return false;
    *text = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }

  bool ReadCount(std::uint64_t* count) {
    if (!Read(count)) return false;
    if (*count > kMaxKeysOfRequest) return Refuse(absl::StrCat(*count, " keys"), kMaxKeysOfRequest);
    return true;
  }

  std::size_t at() const { return at_; }
  const absl::Status& status() const { return status_; }

 private:
  bool Refuse(const std::string& what, std::size_t limit) {
    status_ = absl::ResourceExhaustedError(
        absl::StrCat(ToString(operation_), " with ", what, "; at most ", limit));
    return false;
  }

  const Operation operation_;
  const absl::string_view bytes_;
  std::size_t at_ = 1;
  absl::Status status_;
};

bool ReadArgument(char kind, ArgumentReader* reader, Request* request) {
  std::uint32_t word = 0;
  switch (kind) {
    case 'k':
      return reader->ReadText(kMaxKeyBytes, "key", &request->texts.emplace_back());
    case 'v':
      return reader->ReadText(kMaxValueBytes, "value", &request->texts.emplace_back());
    case 'i':
      return reader->Read(&request->number);
    default:
      if (!reader->Read(&word)) return false;
      request->number = word;
      return true;
  }
}

bool ReadArguments(absl::string_view kinds, ArgumentReader* reader, Request* request) {
  std::uint64_t times = 1;
  if (!kinds.empty() && kinds[0] == '*') {
    if (!reader->ReadCount(&times)) return false;
    kinds.remove_prefix(1);
  }
  for (std::uint64_t i = 0; i < times; ++i) {
    for (const char kind : kinds) {
      if (!ReadArgument(kind, reader, request)) return false;
    }
  }
  return true;
}

}  // namespace

absl::string_view ToString(Operation operation) {
  return kNames[static_cast<std::size_t>(operation)];
}

std::optional<Greeting> ParseGreeting(absl::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  if (bytes[0] != kValidate) return Greeting{Dialect::kAtOnce, 0};
  // Either a validation, or the first bytes of a SET with an impossible key of 1 GiB.
  constexpr std::size_t kSize = 1 + sizeof(kValidationNumber);
  if (bytes.size() < kSize) return std::nullopt;
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data() + 1, sizeof(number));
  if (number == kValidationNumber) return Greeting{Dialect::kValidated, kSize};
  return Greeting{Dialect::kAtOnce, 0};
}

absl::StatusOr<std::optional<ParsedRequest>> ParseRequest(Dialect dialect,
                                                          absl::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const absl::StatusOr<Grammar> grammar =
      GrammarOf(dialect, static_cast<std::uint8_t>(bytes.front()));
  if (!grammar.ok()) return grammar.status();
  ParsedRequest parsed;
  parsed.request.operation = grammar->operation;
  ArgumentReader reader(grammar->operation, bytes);
  if (!ReadArguments(grammar->arguments, &reader, &parsed.request)) {
    if (!reader.status().ok()) return reader.status();
    return std::nullopt;
  }
  parsed.size = reader.at();
  return parsed;
}

std::string EncodeText(absl::string_view text) {
  std::string bytes;
  bytes.reserve(sizeof(std::uint64_t) + text.size());
  AppendTo<std::uint64_t>(text.size(), &bytes);
  absl::StrAppend(&bytes, text);
  return bytes;
}

std::string EncodeNumber(std::int64_t number) {
  std::string bytes;
  AppendTo(number, &bytes);
  return bytes;
}

}  // namespace ddprun::torch_store
