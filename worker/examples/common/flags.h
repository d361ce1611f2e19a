// The flags of all example trainers.
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
  int batch_size = 64;  // for each worker
  double lr = 0.002;
  int checkpoint_every = 50;  // steps; 0: neither checkpoints nor snapshots
  int snapshot_every = 0;     // steps; 0: as often as it costs almost nothing
  bool share_each_step = false;
  std::string checkpoint_dir;  // empty: only snapshots in memory
  std::string backend = "auto";
  std::string device = "auto";
  std::uint64_t seed = 1;
  std::int64_t max_steps = 0;  // 0: no limit
  std::string step_log;        // empty: none
  std::string trace_samples;   // empty: no trace
};

// Validators for numbers. CLI11 has PositiveNumber and NonNegativeNumber, but their messages show
// the largest double with all its digits.
CLI::Validator Positive();
CLI::Validator NotNegative();
CLI::Validator Share();  // at least 0, and below 1

// The texts of --help that differ between trainers.
struct FlagTexts {
  std::string data;
  std::string samples;  // for example "images"
  std::string lr;
};

// Adds the flags to `app`. `*flags` contains the defaults, and must outlive `app`.
void AddTrainingFlags(CLI::App* app, TrainingFlags* flags, const FlagTexts& texts);

// True: the flags have their values. False: --help was given (exit code 0), or an error was printed
// (64). `*exit_code` is then the exit code.
bool Parse(CLI::App* app, int argc, char** argv, int* exit_code);

}  // namespace example

#endif  // DDPRUN_WORKER_EXAMPLES_COMMON_FLAGS_H_
