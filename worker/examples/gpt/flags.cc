#include "worker/examples/gpt/flags.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>

namespace gpt {
namespace {

constexpr int kUsageError = 64;  // EX_USAGE of sysexits.h

}  // namespace

bool ParseFlags(int argc, char** argv, Flags* flags, int* exit_code) {
  CLI::App app(
      "Trains a character-level transformer on a text, on as many workers as the launcher says.");
  example::AddTrainingFlags(
      &app, flags,
      {"the text; its last tenth is for validation", "windows of the text, in each batch,",
       "highest learning rate: reached after --warm-up steps, then down to a tenth by a cosine"});
  const auto size = [&](const char* flag, std::int64_t* value, const char* text) {
    app.add_option(flag, *value, text)->check(CLI::Range(1, 1'000'000));
  };
  size("--depth", &flags->depth, "transformer blocks");
  size("--width", &flags->width, "of the embedding; a multiple of --heads");
  size("--heads", &flags->heads, "of attention");
  size("--context", &flags->context, "characters that a prediction may see");
  app.add_option("--dropout", flags->dropout, "share of activations")->check(example::Share());
  app.add_option("--accumulate", flags->accumulate,
                 "batches whose gradients make one step; they are averaged over all ranks once")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--clip", flags->clip, "largest norm of a step's gradient; 0: any")
      ->check(example::NotNegative());
  app.add_option("--weight-decay", flags->weight_decay, "of matrices")
      ->check(example::NotNegative());
  app.add_option("--warm-up", flags->warm_up, "steps")->check(example::NotNegative());
  app.add_option("--precision", flags->precision,
                 "bf16: autocast, on CUDA only; auto: that where there is CUDA, else float32")
      ->check(CLI::IsMember({"auto", "bf16", "float32"}));
  app.add_option("--limit-text", flags->limit_text, "only the first N characters; 0: all")
      ->check(example::NotNegative());
  app.add_option("--sample", flags->sample, "characters that rank 0 writes at the end; 0: none")
      ->check(example::NotNegative());
  app.add_option("--temperature", flags->temperature, "of those: lower is more cautious")
      ->check(example::Positive());
  if (!example::Parse(&app, argc, argv, exit_code)) return false;
  if (flags->width % flags->heads == 0) return true;
  std::fprintf(stderr, "--width: %lld is not a multiple of --heads %lld\n",
               static_cast<long long>(flags->width), static_cast<long long>(flags->heads));
  *exit_code = kUsageError;
  return false;
}

}  // namespace gpt
