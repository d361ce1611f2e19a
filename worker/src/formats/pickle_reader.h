// Reads a pickle, the format in which Python writes objects, as data. A pickle is a program for a
// stack machine that may call any function of the reader's; this machine has no functions: a
// "call" becomes a node that says what would have been called. So nothing can be run, whatever
// the file holds; on top of that, a name that is not on the caller's list ends the reading.
//
// Understood are the instructions that Python's protocols 2 to 5 and libtorch write for dicts,
// lists, tuples, text, numbers and tensors.
#ifndef DDPRUN_WORKER_SRC_FORMATS_PICKLE_READER_H_
#define DDPRUN_WORKER_SRC_FORMATS_PICKLE_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace ddp::internal {

class Pickle {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    kBool,        // number
    kInt,         // number
    kText,        // text
    kOther,       // a float, bytes, or an integer of more than 64 bits: nobody asks for its value
    kGlobal,      // number: what Resolve gave
    kTuple,       // items()
    kList,        // items()
    kDict,        // items(): key, value, key, value
    kCall,        // callee(), arguments(); items() and state() as set afterwards
    kPersistent,  // items(): one, the id
  };

  struct Value {
    Kind kind = Kind::kNone;
    std::uint32_t node = kNoNode;
    std::int64_t number = 0;
    std::string_view text;  // in the pickle
  };

  // The number of the global `module`.`name` that the caller knows, or a negative one to refuse it.
  using Resolve = std::function<std::int64_t(std::string_view module, std::string_view name)>;

  // Takes at most a hundred bytes of memory for each byte of the pickle, and never more than half a
  // GiB: that is enough for a hundred thousand tensors, and a pickle that asks for more is
  // refused. Throws FormatError. `bytes` must outlive this object.
  Pickle(std::string_view bytes, const Resolve& resolve);

  const Value& root() const { return root_; }
  std::span<const Value> items(const Value& value) const;

  // Of a kCall: which global (what Resolve gave), with which arguments.
  std::int64_t callee(const Value& value) const { return nodes_[value.node].callee; }
  std::span<const Value> arguments(const Value& value) const;
  // Of a kCall: the dict that its attributes were set to, or none.
  std::span<const Value> state(const Value& value) const;

 private:
  friend class PickleMachine;

  static constexpr std::uint32_t kNoNode = 0xffffffff;

  // Refers to other nodes by number: whatever refers to what, nothing is copied and nothing has to
  // be taken apart in the end.
  struct Node {
    std::int64_t callee = -1;
    std::uint32_t arguments = kNoNode;  // a tuple
    std::uint32_t state = kNoNode;      // a dict
    std::vector<Value> items;
  };

  std::span<const Value> ItemsOf(std::uint32_t node) const;

  std::vector<Node> nodes_;
  Value root_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_PICKLE_READER_H_
