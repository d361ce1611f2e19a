#include "worker/examples/mnist/flags.h"

#include <CLI/CLI.hpp>
#include <string>

#include "worker/contract/environment.h"

namespace mnist {
namespace {

constexpr int kUsageError = 64;  // EX_USAGE of sysexits.h

// CLI11's own PositiveNumber and NonNegativeNumber name the largest double, with all its digits.
CLI::Validator Number(const std::string& what, bool (*fits)(double)) {
  return CLI::Validator(
      [what, fits](const std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && fits(value)) return "";
        return text + " is not " + what;
      },
      "");
}

CLI::Validator Positive() {
  return Number("a number above 0", [](double value) { return value > 0; });
}

CLI::Validator NotNegative() {
  return Number("0 or a number above it", [](double value) { return value >= 0; });
}

}  // namespace

bool ParseFlags(int argc, char** argv, Flags* flags, int* exit_code) {
  CLI::App app(
      "Trains a small convolutional net on MNIST, on as many workers as the launcher says.");
  app.option_defaults()->always_capture_default();
  app.add_option("--data", flags->data, "folder with MNIST's four IDX files, plain or .gz");
  app.add_option("--epochs", flags->epochs, "passes over the training set")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--batch-size", flags->batch_size, "images per step and worker")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--lr", flags->lr, "learning rate at the start; falls to 0 linearly")
      ->check(Positive());
  app.add_option("--checkpoint-every", flags->checkpoint_every, "steps; 0: none, in memory neither")
      ->check(NotNegative());
  app.add_option("--checkpoint-dir", flags->checkpoint_dir,
                 "if not given, under ddprun in memory only")
      ->envname(ddprun::env::kCheckpointDir);
  app.add_option("--snapshot-every", flags->snapshot_every,
                 "steps between two snapshots in memory, under ddprun; 0: as often as they cost "
                 "less than 1% of the time")
      ->check(NotNegative());
  app.add_option("--backend", flags->backend, "how gradients travel")
      ->check(CLI::IsMember({"auto", "gloo", "nccl"}));
  app.add_option("--seed", flags->seed, "of weights, shuffling and dropout");
  app.add_option("--max-steps", flags->max_steps, "stop after so many steps in total; 0: no limit")
      ->check(NotNegative());
  app.add_option("--step-log", flags->step_log,
                 "folder for rank<R>.log: a line `generation epoch step first_sample_index loss` "
                 "for each finished step");
  app.add_option(
      "--trace-samples", flags->trace_samples,
      "folder for rank<R>.log: a line `generation epoch step sample...` with the numbers "
      "of all samples of each finished step");
  app.add_option("--limit-train", flags->limit_train, "only the first N training images; 0: all")
      ->check(NotNegative());
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& e) {
    *exit_code = app.exit(e) == 0 ? 0 : kUsageError;
    return false;
  }
}

}  // namespace mnist
