#include "worker/examples/mnist/flags.h"

#include <CLI/CLI.hpp>

namespace mnist {

bool ParseFlags(int argc, char** argv, Flags* flags, int* exit_code) {
  CLI::App app(
      "Trains a small convolutional net on MNIST, on as many workers as the launcher says.");
  example::AddTrainingFlags(&app, flags,
                            {"folder with MNIST's four IDX files, plain or .gz", "images",
                             "learning rate at the start; falls to 0 linearly"});
  app.add_option("--limit-train", flags->limit_train, "only the first N training images; 0: all")
      ->check(example::NotNegative());
  return example::Parse(&app, argc, argv, exit_code);
}

}  // namespace mnist
