// The flags that every example trainer has.
#ifndef DDPRUN_WORKER_EXAMPLES_COMMON_FLAGS_H_
#define DDPRUN_WORKER_EXAMPLES_COMMON_FLAGS_H_

#include <cstdint>
#include <string>

namespace CLI {
class App;        // include <CLI/CLI.hpp> to use it
class Validator;  // the same
}  // namespace CLI

namespace example {

struct TrainingFlags {
  std::string data;
  int epochs = 5;
  int batch_size = 64;  // of each worker
  double lr = 0.002;
  int checkpoint_every = 50;   // steps; 0: never
  int snapshot_every = 0;      // steps; 0: as often as costs next to nothing
  std::string checkpoint_dir;  // empty: no checkpoints
  std::string backend = "auto";
  std::string device = "auto";
  std::uint64_t seed = 1;
  std::int64_t max_steps = 0;  // 0: no limit
  std::string step_log;        // empty: none
  std::string trace_samples;   // empty: no trace
};

// Numbers that fit; CLI11's own PositiveNumber and NonNegativeNumber name the largest double, with
// all its digits.
CLI::Validator Positive();
CLI::Validator NotNegative();
CLI::Validator Share();  // 0 or above, below 1

// What differs between trainers in the help.
struct FlagTexts {
  std::string data;
  std::string samples;  // "images"
  std::string lr;
};

// Adds them to `app`. `*flags` has the defaults, and outlives `app`.
void AddTrainingFlags(CLI::App* app, TrainingFlags* flags, const FlagTexts& texts);

// Returns true with the flags filled in, or false with the process's exit code in `*exit_code`
// after --help (0) or an error, which is printed (64).
bool Parse(CLI::App* app, int argc, char** argv, int* exit_code);

}  // namespace example

#endif  // DDPRUN_WORKER_EXAMPLES_COMMON_FLAGS_H_
