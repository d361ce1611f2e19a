// A text in memory: characters as numbers, cut into windows.
#ifndef DDPRUN_WORKER_EXAMPLES_GPT_TEXT_H_
#define DDPRUN_WORKER_EXAMPLES_GPT_TEXT_H_

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

struct Batch {
  torch::Tensor tokens;   // int64 [n, context]
  torch::Tensor targets;  // int64 [n, context]: the token after each of them
};

// Window i has the `context` characters from i * context on, and the character after each of them.
class Windows {
 public:
  Windows() = default;
  Windows(torch::Tensor tokens, std::int64_t context)
      : tokens_(std::move(tokens)), context_(context) {}

  std::int64_t size() const { return (tokens_.size(0) - 1) / context_; }
  Batch Get(const std::vector<std::size_t>& indices, torch::Device device) const;

 private:
  torch::Tensor tokens_;  // uint8 [characters]
  std::int64_t context_ = 1;
};

struct Text {
  std::string vocabulary;  // the bytes that occur, ascending; token i is vocabulary[i]
  Windows train;           // the first nine tenths
  Windows validation;      // the rest
};

// Reads the first `limit` bytes of the file (0: all). Throws std::runtime_error if the file cannot
// be read, or if it is too short for one window of each part.
Text Load(const std::string& path, std::int64_t limit, std::int64_t context);

}  // namespace gpt

#endif  // DDPRUN_WORKER_EXAMPLES_GPT_TEXT_H_
