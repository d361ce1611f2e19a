#include "launcher/torch_store/key_store.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace ddprun::torch_store {
namespace {

// The answers to CHECK and WAIT.
constexpr char kReady = 0;
constexpr char kNotReady = 1;
constexpr char kStopWaiting = 0;
constexpr char kWaitCancelled = 1;
// The events for watchers.
constexpr char kKeyUpdated = 0;
constexpr char kKeyCreated = 1;
constexpr char kKeyDeleted = 2;
constexpr char kRegistered = 3;
constexpr char kKeyAppended = 4;

// As libtorch reads a number: leading digits, the rest ignored.
absl::StatusOr<std::int64_t> NumberIn(const std::string& value) {
  char* end = nullptr;
  const std::int64_t number = std::strtoll(value.c_str(), &end, 10);
  if (end == value.c_str()) return absl::InvalidArgumentError("ADD to a value that is no number");
  return number;
}

std::int64_t Sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

absl::Status KeyStore::Handle(ClientId client, const Request& request, Replies* replies) {
  // A client has one request at a time. So with a new request it has given up its wait. libtorch
  // 1.13 sends nothing else for this.
  if (!waits_.empty()) EndWait(client);
  const auto& texts = request.texts;
  const auto reply = [&](std::string bytes) { replies->push_back({client, std::move(bytes)}); };
  switch (request.operation) {
    case Operation::kSet:
      return Set(texts[0], texts[1], replies);
    case Operation::kCompareSet:
      return CompareSet(client, request, replies);
    case Operation::kGet:
    case Operation::kMultiGet:
      return SendValues(client, request, replies);
    case Operation::kAdd:
      return Add(client, request, replies);
    case Operation::kCheck:
      reply(std::string(1, HasAll(request) ? kReady : kNotReady));
      break;
    case Operation::kWait:
      return BeginWait(client, request, replies);
    case Operation::kCountKeys:
      reply(EncodeNumber(static_cast<std::int64_t>(values_.size())));
      break;
    case Operation::kWatch:
      return Watch(client, texts[0], replies);
    case Operation::kDelete:
      Delete(client, texts[0], replies);
      break;
    case Operation::kAppend:
      return Append(texts[0], texts[1], replies);
    case Operation::kMultiSet:
      return SetAll(request, replies);
    case Operation::kCancelWait:
      reply(std::string(1, kWaitCancelled));
      break;
    case Operation::kPing:
      reply(EncodeNumber(request.number).substr(0, sizeof(std::uint32_t)));
      break;
  }
  return absl::OkStatus();
}

void KeyStore::Forget(ClientId client) {
  EndWait(client);
  for (auto watched = watchers_.begin(); watched != watchers_.end();) {
    bytes_ -= std::erase(watched->second, client) * watched->first.size();
    const auto next = std::next(watched);
    if (watched->second.empty()) watchers_.erase(watched);
    watched = next;
  }
}

absl::Status KeyStore::CheckRoom(std::size_t new_keys, std::size_t added,
                                 std::size_t removed) const {
  if (new_keys > 0 && values_.size() >= limits_.keys) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the store is full: it has ", values_.size(), " keys"));
  }
  if (bytes_ - removed + added > limits_.bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the store is full: keys and values have at most ", limits_.bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status KeyStore::Set(absl::string_view key, absl::string_view value, Replies* replies) {
  const auto at = values_.find(key);
  const bool is_new = at == values_.end();
  const std::size_t added = value.size() + (is_new ? key.size() : 0);
  const std::size_t removed = is_new ? 0 : at->second.size();
  if (const absl::Status room = CheckRoom(is_new ? 1 : 0, added, removed); !room.ok()) return room;
  bytes_ += added - removed;
  std::string old_value;
  if (is_new) {
    values_.emplace(key, value);
  } else {
    old_value = std::exchange(at->second, std::string(value));
  }
  WakeClientsOf(key, replies);
  NotifyWatchers(is_new ? kKeyCreated : kKeyUpdated, key, old_value, value, replies);
  return absl::OkStatus();
}

absl::Status KeyStore::CompareSet(ClientId client, const Request& request, Replies* replies) {
  const absl::string_view key = request.texts[0];
  const absl::string_view expected = request.texts[1];
  const absl::string_view wanted = request.texts[2];
  const auto at = values_.find(key);
  const bool is_new = at == values_.end();
  const bool fits = is_new ? expected.empty() : at->second == expected;
  if (!fits) {
    // For a missing key libtorch returns the expected value.
    replies->push_back({client, EncodeText(is_new ? expected : at->second)});
    return absl::OkStatus();
  }
  replies->push_back({client, EncodeText(wanted)});
  return Set(key, wanted, replies);
}

absl::Status KeyStore::Add(ClientId client, const Request& request, Replies* replies) {
  const absl::string_view key = request.texts[0];
  std::int64_t sum = request.number;
  if (const auto at = values_.find(key); at != values_.end()) {
    const absl::StatusOr<std::int64_t> number = NumberIn(at->second);
    if (!number.ok()) return number.status();
    sum = Sum(sum, *number);
  }
  replies->push_back({client, EncodeNumber(sum)});
  return Set(key, std::to_string(sum), replies);
}

absl::Status KeyStore::Append(absl::string_view key, absl::string_view value, Replies* replies) {
  const auto at = values_.find(key);
  if (at == values_.end()) return Set(key, value, replies);
  if (const absl::Status room = CheckRoom(0, value.size(), 0); !room.ok()) return room;
  bytes_ += value.size();
  absl::StrAppend(&at->second, value);
  WakeClientsOf(key, replies);
  NotifyWatchers(kKeyAppended, key, "", value, replies);
  return absl::OkStatus();
}

absl::Status KeyStore::SendValues(ClientId client, const Request& request, Replies* replies) const {
  std::string bytes;
  for (const absl::string_view key : request.texts) {
    const auto at = values_.find(key);
    if (at == values_.end()) {
      return absl::NotFoundError(
          absl::StrCat(ToString(request.operation), " of a key that is not there"));
    }
    if (bytes.size() + at->second.size() > limits_.bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(ToString(request.operation), " of more than ", limits_.bytes, " bytes"));
    }
    bytes += EncodeText(at->second);
  }
  replies->push_back({client, std::move(bytes)});
  return absl::OkStatus();
}

absl::Status KeyStore::SetAll(const Request& request, Replies* replies) {
  for (std::size_t i = 0; i + 1 < request.texts.size(); i += 2) {
    const absl::Status set = Set(request.texts[i], request.texts[i + 1], replies);
    if (!set.ok()) return set;
  }
  return absl::OkStatus();
}

void KeyStore::Delete(ClientId client, absl::string_view key, Replies* replies) {
  const auto at = values_.find(key);
  const bool is_there = at != values_.end();
  if (is_there) {
    NotifyWatchers(kKeyDeleted, key, at->second, "", replies);
    bytes_ -= key.size() + at->second.size();
    values_.erase(at);
  }
  replies->push_back({client, EncodeNumber(is_there ? 1 : 0)});
}

bool KeyStore::HasAll(const Request& request) const {
  return std::all_of(request.texts.begin(), request.texts.end(),
                     [this](absl::string_view key) { return values_.contains(key); });
}

absl::Status KeyStore::BeginWait(ClientId client, const Request& request, Replies* replies) {
  Wait wait;
  for (const absl::string_view key : request.texts) {
    if (values_.contains(key)) continue;
    wait.bytes += key.size();
    wait.keys.emplace_back(key);
  }
  wait.missing = wait.keys.size();
  if (wait.missing == 0) {
    replies->push_back({client, std::string(1, kStopWaiting)});
    return absl::OkStatus();
  }
  if (const absl::Status room = CheckRoom(0, wait.bytes, 0); !room.ok()) return room;
  bytes_ += wait.bytes;
  for (const std::string& key : wait.keys) waiting_[key].push_back(client);
  waits_.emplace(client, std::move(wait));
  return absl::OkStatus();
}

void KeyStore::EndWait(ClientId client) {
  const auto wait = waits_.find(client);
  if (wait == waits_.end()) return;
  for (const std::string& key : wait->second.keys) {
    const auto waiting = waiting_.find(key);
    if (waiting == waiting_.end()) continue;
    std::erase(waiting->second, client);
    if (waiting->second.empty()) waiting_.erase(waiting);
  }
  bytes_ -= wait->second.bytes;
  waits_.erase(wait);
}

void KeyStore::WakeClientsOf(absl::string_view key, Replies* replies) {
  const auto waiting = waiting_.find(key);
  if (waiting == waiting_.end()) return;
  for (const ClientId client : waiting->second) {
    const auto wait = waits_.find(client);
    if (--wait->second.missing > 0) continue;
    replies->push_back({client, std::string(1, kStopWaiting)});
    bytes_ -= wait->second.bytes;
    waits_.erase(wait);
  }
  waiting_.erase(waiting);
}

absl::Status KeyStore::Watch(ClientId client, absl::string_view key, Replies* replies) {
  if (const absl::Status room = CheckRoom(0, key.size(), 0); !room.ok()) return room;
  bytes_ += key.size();
  watchers_[key].push_back(client);
  replies->push_back({client, std::string(1, kRegistered)});
  return absl::OkStatus();
}

void KeyStore::NotifyWatchers(char event, absl::string_view key, absl::string_view old_value,
                              absl::string_view new_value, Replies* replies) const {
  if (watchers_.empty()) return;
  const auto watching = watchers_.find(key);
  if (watching == watchers_.end()) return;
  std::string bytes(1, event);
  bytes += EncodeText(key);
  bytes += EncodeText(old_value);
  bytes += EncodeText(new_value);
  for (const ClientId client : watching->second) replies->push_back({client, bytes});
}

}  // namespace ddprun::torch_store
