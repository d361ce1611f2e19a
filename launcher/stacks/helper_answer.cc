// The messages between ddprun and its unwind helper.
#include "launcher/stacks/helper_answer.h"

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/stacks/bytes.h"
#include "launcher/stacks/unwind_helper.h"

namespace ddprun::stacks {
namespace {

constexpr std::uint32_t kMagic = 0x64647531;  // "ddu1"
constexpr std::size_t kMostThreads = std::size_t{1} << 20;
constexpr std::size_t kMostFramesOfAThread = 1024;
constexpr std::size_t kMostText = std::size_t{1} << 30;
constexpr std::size_t kMostNames = std::size_t{1} << 20;
constexpr std::size_t kMostRegisters = 64;
enum Record : std::uint8_t { kName = 1, kThread = 2, kEnd = 3 };

}  // namespace

AnswerWriter::AnswerWriter() { bytes_.Put(kMagic); }

std::uint32_t AnswerWriter::Name(const std::string& name) {
  const auto [entry, added] = names_.try_emplace(name.substr(0, kMaxStackNameBytes),
                                                 static_cast<std::uint32_t>(names_.size()));
  if (added) {
    bytes_.Put(std::uint8_t{kName});
    bytes_.Put(std::string_view(entry->first));
  }
  return entry->second;
}

void AnswerWriter::Add(const UnwoundThread& thread) {
  std::vector<std::uint32_t> words;
  for (const StackFrame& frame : thread.frames) {
    words.insert(words.end(),
                 {Name(frame.function), Name(frame.file), Name(frame.image), frame.line});
  }
  const std::uint32_t error = Name(thread.error);
  bytes_.Put(std::uint8_t{kThread});
  bytes_.Put(static_cast<std::int32_t>(thread.tid));
  bytes_.Put(static_cast<std::uint8_t>(thread.complete));
  bytes_.Put(error);
  bytes_.Put(static_cast<std::uint32_t>(thread.frames.size()));
  for (const std::uint32_t word : words) bytes_.Put(word);
  for (std::size_t i = 0; i < thread.frames.size(); ++i) {
    bytes_.Put(i < thread.stack_pointers.size() ? thread.stack_pointers[i] : std::uint64_t{0});
  }
}

void AnswerWriter::End() { bytes_.Put(std::uint8_t{kEnd}); }

std::string AnswerWriter::Take() { return std::exchange(bytes_.bytes(), {}); }

namespace {

class AnswerReader {
 public:
  explicit AnswerReader(std::string_view answer) : bytes_(answer) {}

  Unwound Read() {
    Unwound result;
    if (bytes_.Take<std::uint32_t>() != kMagic) {
      // Empty: the helper ended before it wrote anything.
      result.status = absl::DataLossError("the unwind helper returned no readable answer");
      return result;
    }
    while (true) {
      const auto record = bytes_.Take<std::uint8_t>();
      if (!bytes_.ok()) break;
      if (record == kEnd) {
        if (!bytes_.at_end()) return Refused("more than an answer");
        return result;
      }
      const absl::Status status = record == kName     ? TakeName()
                                  : record == kThread ? TakeThread(&result)
                                                      : absl::DataLossError("an unknown record");
      if (!status.ok()) return Refused(status.message());
      if (!bytes_.ok()) break;
    }
    result.status = absl::DataLossError("the unwind helper ended before it was done");
    return result;
  }

 private:
  static Unwound Refused(absl::string_view what) {
    Unwound result;
    result.status = absl::InvalidArgumentError(
        absl::StrCat("the unwind helper's answer is damaged (", what, ")"));
    return result;
  }

  absl::Status TakeName() {
    if (names_.size() >= kMostNames) return absl::DataLossError("too many names");
    std::string_view name = bytes_.TakeText(kMostText);
    if (bytes_.ok() && name.size() > kMaxStackNameBytes) {
      return absl::DataLossError("a name that is too long");
    }
    names_.emplace_back(name);
    return absl::OkStatus();
  }

  absl::Status TakeThread(Unwound* result) {
    UnwoundThread thread;
    thread.tid = bytes_.Take<std::int32_t>();
    const auto complete = bytes_.Take<std::uint8_t>();
    const auto error = bytes_.Take<std::uint32_t>();
    const auto count = bytes_.Take<std::uint32_t>();
    if (!bytes_.ok()) return absl::OkStatus();
    if (complete > 1 || thread.tid <= 0) return absl::DataLossError("a thread that cannot be");
    if (count > kMostFramesOfAThread) return absl::DataLossError("too many frames");
    if (error >= names_.size()) return absl::DataLossError("a name that is missing");
    thread.complete = complete == 1;
    thread.error = names_[error];
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint32_t words[4];
      for (std::uint32_t& word : words) word = bytes_.Take<std::uint32_t>();
      if (!bytes_.ok()) return absl::OkStatus();
      if (words[0] >= names_.size() || words[1] >= names_.size() || words[2] >= names_.size()) {
        return absl::DataLossError("a name that is missing");
      }
      thread.frames.push_back({names_[words[0]], names_[words[1]], words[3], names_[words[2]]});
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      thread.stack_pointers.push_back(bytes_.Take<std::uint64_t>());
    }
    if (!bytes_.ok()) return absl::OkStatus();
    const pid_t tid = thread.tid;
    if (!result->threads.emplace(tid, std::move(thread)).second) {
      return absl::DataLossError("a thread twice");
    }
    return absl::OkStatus();
  }

  ByteReader bytes_;
  std::vector<std::string> names_;
};

}  // namespace

Unwound ParseAnswer(std::string_view answer) { return AnswerReader(answer).Read(); }

std::string FormatCopies(const std::vector<CopiedProcess>& processes) {
  ByteWriter bytes;
  bytes.Put(kMagic);
  for (const CopiedProcess& process : processes) {
    if (!process.status.ok()) continue;
    bytes.Put(static_cast<std::int32_t>(process.pid));
    bytes.Put(std::string_view(process.maps));
    std::uint32_t copied = 0;
    for (const CopiedThread& thread : process.threads) copied += thread.copied.ok() ? 1 : 0;
    bytes.Put(copied);
    for (const CopiedThread& thread : process.threads) {
      if (!thread.copied.ok()) continue;
      bytes.Put(static_cast<std::int32_t>(thread.tid));
      bytes.Put(static_cast<std::uint32_t>(thread.registers.size()));
      for (const std::uint64_t value : thread.registers) bytes.Put(value);
      bytes.Put(thread.stack_start);
      bytes.Put(static_cast<std::uint8_t>(thread.stack_is_whole));
      bytes.Put(std::string_view(thread.stack));
    }
  }
  return std::move(bytes.bytes());
}

std::optional<std::vector<CopiedProcess>> ParseCopies(std::string_view copies) {
  ByteReader bytes(copies);
  if (bytes.Take<std::uint32_t>() != kMagic) return std::nullopt;
  std::vector<CopiedProcess> processes;
  std::size_t threads = 0;
  while (!bytes.at_end()) {
    CopiedProcess& process = processes.emplace_back();
    process.pid = bytes.Take<std::int32_t>();
    process.maps = bytes.TakeText(kMostText);
    const auto count = bytes.Take<std::uint32_t>();
    for (std::uint32_t i = 0; i < count; ++i) {
      CopiedThread thread;
      thread.tid = bytes.Take<std::int32_t>();
      const auto registers = bytes.Take<std::uint32_t>();
      if (registers > kMostRegisters || ++threads > kMostThreads) return std::nullopt;
      for (std::uint32_t r = 0; r < registers; ++r) {
        thread.registers.push_back(bytes.Take<std::uint64_t>());
      }
      thread.stack_start = bytes.Take<std::uint64_t>();
      thread.stack_is_whole = bytes.Take<std::uint8_t>() != 0;
      thread.stack = bytes.TakeText(kMostText);
      if (!bytes.ok()) return std::nullopt;
      process.threads.push_back(std::move(thread));
    }
    if (!bytes.ok()) return std::nullopt;
  }
  return processes;
}

}  // namespace ddprun::stacks
