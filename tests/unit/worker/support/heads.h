// A model with two heads on one trunk, for tests of steps that do not use all parameters.
#ifndef DDPRUN_TESTS_UNIT_WORKER_SUPPORT_HEADS_H_
#define DDPRUN_TESTS_UNIT_WORKER_SUPPORT_HEADS_H_

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

namespace ddp::test {

// The forward() of a derived class decides which heads a step uses.
struct Heads : torch::nn::Module {
  Heads()
      : trunk(register_module("trunk", torch::nn::Linear(3, 4))),
        left(register_module("left", torch::nn::Linear(4, 2))),
        right(register_module("right", torch::nn::Linear(4, 2))) {}
  torch::nn::Linear trunk;
  torch::nn::Linear left;
  torch::nn::Linear right;
};

}  // namespace ddp::test

#endif  // DDPRUN_TESTS_UNIT_WORKER_SUPPORT_HEADS_H_
