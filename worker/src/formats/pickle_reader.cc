#include "worker/src/formats/pickle_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/src/formats/format_error.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxStack = std::size_t{1} << 20;
constexpr std::size_t kMaxMemo = std::size_t{3} << 20;
constexpr std::size_t kMaxNodes = std::size_t{2} << 20;
constexpr std::size_t kMaxItems = std::size_t{4} << 20;  // sum over all nodes

// Instructions, with the names of Python's pickletools.
enum Opcode : unsigned char {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kBinfloat = 'G',
  kBinint = 'J',
  kBinint1 = 'K',
  kBinint2 = 'M',
  kNone = 'N',
  kBinpersid = 'Q',
  kReduce = 'R',
  kBinunicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinget = 'h',
  kLongBinget = 'j',
  kBinput = 'q',
  kLongBinput = 'r',
  kSetitem = 's',
  kTuple = 't',
  kSetitems = 'u',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kBinbytes = 'B',
  kShortBinbytes = 'C',
  kProto = 0x80,
  kNewobj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewtrue = 0x88,
  kNewfalse = 0x89,
  kLong1 = 0x8a,
  kShortBinunicode = 0x8c,
  kBinunicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

}  // namespace

class PickleMachine {
 public:
  using Kind = Pickle::Kind;
  using Value = Pickle::Value;

  PickleMachine(std::string_view bytes, const Pickle::Resolve& resolve, Pickle* result)
      : bytes_(bytes), resolve_(resolve), result_(*result) {}

  void Run() {
    if (bytes_.size() > kMaxBytes) Fail("it is larger than 64 MiB");
    while (true) {
      begin_ = at_;
      const auto opcode = static_cast<unsigned char>(Take(1)[0]);
      if (opcode == kStop) break;
      if (!TakeAtom(opcode) && !TakeStructure(opcode)) {
        Fail("it has an instruction, " + std::to_string(opcode) + ", that no state_dict needs");
      }
    }
    if (stack_.size() != 1 || !marks_.empty()) Fail("it ends with something left over");
    result_.root_ = stack_.front();
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw FormatError("its pickle, at byte " + std::to_string(begin_) + ": " + what);
  }

  std::string_view Take(std::uint64_t size) {
    if (size > bytes_.size() - at_) Fail("it is cut short");
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(size));
    at_ += static_cast<std::size_t>(size);
    return taken;
  }

  std::uint64_t TakeNumber(std::size_t size) {
    const std::string_view digits = Take(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
    }
    return value;
  }

  std::string_view TakeLine() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) Fail("it is cut short");
    const std::string_view line = Take(end - at_);
    Take(1);
    return line;
  }

  void Push(const Value& value) {
    if (stack_.size() == kMaxStack) Fail("it needs more memory than any state_dict");
    stack_.push_back(value);
  }
  void PushNumber(Kind kind, std::int64_t number) { Push({kind, Pickle::kNoNode, number, {}}); }
  void PushText(std::string_view text) { Push({Kind::kText, Pickle::kNoNode, 0, text}); }

  // Only values that were pushed after the last mark are accessible.
  std::size_t Available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  Value Pop() {
    if (Available() == 0) Fail("it takes a value that is not there");
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }

  Value& Top() {
    if (Available() == 0) Fail("it takes a value that is not there");
    return stack_.back();
  }

  // Removes the last mark. Returns how many values were pushed after it.
  std::size_t PopMark() {
    if (marks_.empty()) Fail("it goes back to a mark that is not there");
    const std::size_t count = Available();
    marks_.pop_back();
    return count;
  }

  std::span<const Value> Last(std::size_t count) const {
    return std::span<const Value>(stack_).last(count);
  }
  void Drop(std::size_t count) { stack_.resize(stack_.size() - count); }

  std::uint32_t NewNode() {
    if (result_.nodes_.size() == kMaxNodes) Fail("it needs more memory than any state_dict");
    result_.nodes_.emplace_back();
    return static_cast<std::uint32_t>(result_.nodes_.size() - 1);
  }

  void AddItems(std::uint32_t node, std::span<const Value> values) {
    items_ += values.size();
    if (items_ > kMaxItems) Fail("it needs more memory than any state_dict");
    std::vector<Value>& items = result_.nodes_[node].items;
    items.insert(items.end(), values.begin(), values.end());
  }

  void PushNode(Kind kind, std::size_t count = 0) {
    if (Available() < count) Fail("it takes a value that is not there");
    Value value;
    value.kind = kind;
    if (count > 0 || kind != Kind::kTuple) {
      value.node = NewNode();
      AddItems(value.node, Last(count));
    }
    Drop(count);
    Push(value);
  }

  void PushGlobal(std::string_view module, std::string_view name) {
    const std::int64_t number = resolve_(module, name);
    if (number < 0) {
      Fail("it names " +
           Quoted(std::string(module.substr(0, 100)) + "." + std::string(name.substr(0, 100))) +
           ", which is not among the few things that a state_dict is made of; nothing was run. "
           "Save the state_dict alone: torch.save(model.state_dict(), path)");
    }
    PushNumber(Kind::kGlobal, number);
  }

  // Records a "call"; nothing is called.
  void PushCall(const char* what) {
    const Value arguments = Pop();
    const Value callee = Pop();
    if (callee.kind != Kind::kGlobal || arguments.kind != Kind::kTuple) {
      Fail(std::string("it calls what is no function (") + what + ")");
    }
    Value value;
    value.kind = Kind::kCall;
    value.node = NewNode();
    result_.nodes_[value.node].callee = callee.number;
    result_.nodes_[value.node].arguments = arguments.node;
    Push(value);
  }

  // Stores the last `count` values in the container below them.
  void Store(std::size_t count, bool pairs) {
    if (Available() < count + 1) Fail("it takes a value that is not there");
    if (pairs && count % 2 != 0) Fail("it has a key without a value");
    const Value& target = stack_[stack_.size() - count - 1];
    const bool fits = pairs ? target.kind == Kind::kDict || target.kind == Kind::kCall
                            : target.kind == Kind::kList;
    if (!fits) Fail("it puts items into what has none");
    AddItems(target.node, Last(count));
    Drop(count);
  }

  void SetState() {
    const Value state = Pop();
    if (Top().kind != Kind::kCall || state.kind != Kind::kDict) {
      Fail("it sets the state of what has none");
    }
    result_.nodes_[Top().node].state = state.node;
  }

  // Every writer numbers its memo from 0, without gaps.
  void Remember(std::uint64_t number) {
    if (number > memo_.size() || number == kMaxMemo) Fail("it remembers a value out of order");
    if (number == memo_.size()) {
      memo_.push_back(Top());
    } else {
      memo_[static_cast<std::size_t>(number)] = Top();
    }
  }

  void Recall(std::uint64_t number) {
    if (number >= memo_.size()) Fail("it recalls a value that is not there");
    Push(memo_[static_cast<std::size_t>(number)]);
  }

  void PushLong(std::size_t size) {
    const std::string_view digits = Take(size);
    if (size > 8) return PushNumber(Kind::kOther, 0);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const bool negative = size > 0 && (digits[size - 1] & 0x80) != 0;
      const auto byte = i < size ? static_cast<unsigned char>(digits[i]) : (negative ? 0xff : 0);
      value |= static_cast<std::uint64_t>(byte) << (8 * i);
    }
    PushNumber(Kind::kInt, static_cast<std::int64_t>(value));
  }

  void PushBytes(std::uint64_t size) {
    Take(size);
    PushNumber(Kind::kOther, 0);
  }

  // Values without parts, and the memo. False: `opcode` is another instruction.
  bool TakeAtom(unsigned char opcode) {
    switch (opcode) {
      case kProto: {
        const std::uint64_t protocol = TakeNumber(1);
        if (protocol < 2 || protocol > 5) Fail("its protocol is " + std::to_string(protocol));
        return true;
      }
      case kFrame:
        return Take(8), true;  // a frame length; not needed
      case kNone:
        return PushNumber(Kind::kNone, 0), true;
      case kNewtrue:
        return PushNumber(Kind::kBool, 1), true;
      case kNewfalse:
        return PushNumber(Kind::kBool, 0), true;
      case kBinint1:
        return PushNumber(Kind::kInt, static_cast<std::int64_t>(TakeNumber(1))), true;
      case kBinint2:
        return PushNumber(Kind::kInt, static_cast<std::int64_t>(TakeNumber(2))), true;
      case kBinint:
        return PushNumber(Kind::kInt, static_cast<std::int32_t>(TakeNumber(4))), true;
      case kLong1:
        return PushLong(static_cast<std::size_t>(TakeNumber(1))), true;
      case kBinfloat:
        return PushBytes(8), true;
      case kShortBinbytes:
        return PushBytes(TakeNumber(1)), true;
      case kBinbytes:
        return PushBytes(TakeNumber(4)), true;
      case kShortBinunicode:
        return PushText(Take(TakeNumber(1))), true;
      case kBinunicode:
        return PushText(Take(TakeNumber(4))), true;
      case kBinunicode8:
        return PushText(Take(TakeNumber(8))), true;
      case kBinput:
        return Remember(TakeNumber(1)), true;
      case kLongBinput:
        return Remember(TakeNumber(4)), true;
      case kMemoize:
        return Remember(memo_.size()), true;
      case kBinget:
        return Recall(TakeNumber(1)), true;
      case kLongBinget:
        return Recall(TakeNumber(4)), true;
      default:
        return false;
    }
  }

  // Values that consist of other values. False: `opcode` is another instruction.
  bool TakeStructure(unsigned char opcode) {
    switch (opcode) {
      case kMark:
        if (marks_.size() == kMaxStack) Fail("it needs more memory than any state_dict");
        marks_.push_back(stack_.size());
        return true;
      case kPop:
        return Pop(), true;
      case kPopMark:
        return Drop(PopMark()), true;
      case kEmptyTuple:
        return PushNode(Kind::kTuple), true;
      case kEmptyList:
        return PushNode(Kind::kList), true;
      case kEmptyDict:
        return PushNode(Kind::kDict), true;
      case kTuple:
        return PushNode(Kind::kTuple, PopMark()), true;
      case kTuple1:
        return PushNode(Kind::kTuple, 1), true;
      case kTuple2:
        return PushNode(Kind::kTuple, 2), true;
      case kTuple3:
        return PushNode(Kind::kTuple, 3), true;
      case kAppend:
        return Store(1, false), true;
      case kAppends:
        return Store(PopMark(), false), true;
      case kSetitem:
        return Store(2, true), true;
      case kSetitems:
        return Store(PopMark(), true), true;
      case kBinpersid:
        return PushNode(Kind::kPersistent, 1), true;
      case kReduce:
        return PushCall("REDUCE"), true;
      case kNewobj:
        return PushCall("NEWOBJ"), true;
      case kBuild:
        return SetState(), true;
      case kGlobal: {
        const std::string_view module = TakeLine();
        return PushGlobal(module, TakeLine()), true;
      }
      case kStackGlobal: {
        const Value name = Pop();
        const Value module = Pop();
        if (name.kind != Kind::kText || module.kind != Kind::kText) Fail("it names no name");
        return PushGlobal(module.text, name.text), true;
      }
      default:
        return false;
    }
  }

  const std::string_view bytes_;
  const Pickle::Resolve& resolve_;
  Pickle& result_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;  // offset of the current instruction
  std::size_t items_ = 0;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack at the marks
  std::vector<Value> memo_;
};

Pickle::Pickle(std::string_view bytes, const Resolve& resolve) {
  PickleMachine(bytes, resolve, this).Run();
}

std::span<const Pickle::Value> Pickle::ItemsOf(std::uint32_t node) const {
  return node == kNoNode ? std::span<const Value>() : std::span<const Value>(nodes_[node].items);
}

std::span<const Pickle::Value> Pickle::items(const Value& value) const {
  return ItemsOf(value.node);
}

std::span<const Pickle::Value> Pickle::arguments(const Value& value) const {
  return ItemsOf(nodes_[value.node].arguments);
}

std::span<const Pickle::Value> Pickle::state(const Value& value) const {
  return ItemsOf(nodes_[value.node].state);
}

}  // namespace ddp::internal
