#include "worker/examples/common/flags.h"

#include <CLI/CLI.hpp>
#include <string>

#include "worker/contract/environment.h"

namespace example {
namespace {

constexpr int kUsageError = 64;  // EX_USAGE of sysexits.h

CLI::Validator Number(const std::string& what, bool (*fits)(double)) {
  return CLI::Validator(
      [what, fits](const std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && fits(value)) return "";
        return text + " is not " + what;
      },
      "");
}

}  // namespace

CLI::Validator Positive() {
  return Number("a number above 0", [](double value) { return value > 0; });
}

CLI::Validator NotNegative() {
  return Number("0 or a number above it", [](double value) { return value >= 0; });
}

CLI::Validator Share() {
  return Number("a number from 0 to below 1", [](double value) { return value >= 0 && value < 1; });
}

void AddTrainingFlags(CLI::App* app, TrainingFlags* flags, const FlagTexts& texts) {
  app->option_defaults()->always_capture_default();
  app->add_option("--data", flags->data, texts.data);
  app->add_option("--epochs", flags->epochs, "passes over the training set")
      ->check(CLI::Range(1, 1'000'000));
  app->add_option("--batch-size", flags->batch_size, texts.samples + " per step and worker")
      ->check(CLI::Range(1, 1'000'000));
  app->add_option("--lr", flags->lr, texts.lr)->check(Positive());
  app->add_option("--checkpoint-every", flags->checkpoint_every,
                  "steps; 0: none, in memory neither")
      ->check(NotNegative());
  app->add_option("--checkpoint-dir", flags->checkpoint_dir,
                  "if not given, under ddprun in memory only")
      ->envname(ddprun::env::kCheckpointDir);
  app->add_option("--snapshot-every", flags->snapshot_every,
                  "steps between two snapshots in memory, under ddprun; 0: as often as they cost "
                  "less than 1% of the time")
      ->check(NotNegative());
  app->add_flag("--share-each-step", flags->share_each_step,
                "on the CPU: the loss of any node repeats at most one step, and changes no value");
  app->add_option("--backend", flags->backend, "how gradients travel")
      ->check(CLI::IsMember({"auto", "gloo", "nccl"}));
  app->add_option("--device", flags->device,
                  "where the model is; cuda with gloo: ranks may share a GPU")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app->add_option("--seed", flags->seed, "of weights, shuffling and dropout");
  app->add_option("--max-steps", flags->max_steps, "stop after so many steps in total; 0: no limit")
      ->check(NotNegative());
  app->add_option("--step-log", flags->step_log,
                  "folder for rank<R>.log: a line `generation epoch step first_sample_index loss` "
                  "for each finished step");
  app->add_option("--trace-samples", flags->trace_samples,
                  "folder for rank<R>.log: a line `generation epoch step sample...` with the "
                  "numbers of all samples of each finished step");
}

bool Parse(CLI::App* app, int argc, char** argv, int* exit_code) {
  try {
    app->parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& e) {
    *exit_code = app->exit(e) == 0 ? 0 : kUsageError;
    return false;
  }
}

}  // namespace example
