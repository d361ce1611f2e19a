// Writes the answer of the unwind helper (unwind_helper.h). Internal to this folder.
#ifndef DDPRUN_LAUNCHER_STACKS_HELPER_ANSWER_H_
#define DDPRUN_LAUNCHER_STACKS_HELPER_ANSWER_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "launcher/stacks/bytes.h"
#include "launcher/stacks/copied_stacks.h"

namespace ddprun::stacks {

// Writes one thread after another. All bytes that Take() has returned so far are a valid beginning
// of an answer.
class AnswerWriter {
 public:
  AnswerWriter();
  void Add(const UnwoundThread& thread);
  void End();
  std::string Take();  // the bytes since the last call

 private:
  std::uint32_t Name(const std::string& name);

  ByteWriter bytes_;
  std::unordered_map<std::string, std::uint32_t> names_;
};

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_HELPER_ANSWER_H_
