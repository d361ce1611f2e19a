// Reads a pickle (Python's object format) as data. A pickle is a program for a stack machine that
// may call any function of its reader. This machine has no functions: a "call" becomes a node that
// names the function. So a file cannot run anything. In addition, reading fails at the first name
// that is not on the caller's list.
//
// Supports the instructions that Python (protocols 2 to 5) and libtorch write for dicts, lists,
// tuples, text, numbers and tensors.
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
    kOther,       // a float, bytes, or an integer of more than 64 bits; the value is not kept
    kGlobal,      // number: the result of Resolve
    kTuple,       // items()
    kList,        // items()
    kDict,        // items(): key, value, key, value
    kCall,        // callee(), arguments(); items() and state() if set after the call
    kPersistent,  // items(): only the id
  };

  struct Value {
    Kind kind = Kind::kNone;
    std::uint32_t node = kNoNode;
    std::int64_t number = 0;
    std::string_view text;  // a view into the pickle
  };

  // Returns the caller's number for the global `module`.`name`, or a negative number to refuse it.
  using Resolve = std::function<std::int64_t(std::string_view module, std::string_view name)>;

  // Uses about a hundred bytes of memory per byte of the pickle, and at most about half a GiB. That
  // is enough for a hundred thousand tensors. Throws FormatError, also for a pickle that needs
  // more. `bytes` must outlive this object.
  Pickle(std::string_view bytes, const Resolve& resolve);

  const Value& root() const { return root_; }
  std::span<const Value> items(const Value& value) const;

  // For a kCall: what Resolve returned for the called global.
  std::int64_t callee(const Value& value) const { return nodes_[value.node].callee; }
  std::span<const Value> arguments(const Value& value) const;
  // For a kCall: the dict of its attributes. Empty: none.
  std::span<const Value> state(const Value& value) const;

 private:
  friend class PickleMachine;

  static constexpr std::uint32_t kNoNode = 0xffffffff;

  // Nodes refer to other nodes by number. So a cycle needs no copy, and destruction needs no
  // recursion.
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
