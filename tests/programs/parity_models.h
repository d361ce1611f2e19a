// The modules of tests/programs/python/parity_models.py in C++, with the same names and operations.
// Equal results to the last bit need the same order of parameters and the same kernels.
//
// A module takes images [batch, 1, 8, 8] and returns 10 logits for each image. `turn` is a number
// that changes with the step, with the rank or with both. Only "heads" uses it.
#ifndef DDPRUN_TESTS_PROGRAMS_PARITY_MODELS_H_
#define DDPRUN_TESTS_PROGRAMS_PARITY_MODELS_H_

#include <ddp/sync_batch_norm.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace parity {

struct Model : torch::nn::Module {
  virtual torch::Tensor forward(const torch::Tensor& x, int turn) = 0;
};

struct Dense : Model {
  explicit Dense(double dropout = 0)
      : conv(register_module("conv", torch::nn::Conv2d(1, 4, 3))),
        hidden(register_module("hidden", torch::nn::Linear(144, 32))),
        drop(register_module("drop", torch::nn::Dropout(dropout))),
        out(register_module("out", torch::nn::Linear(32, 10))) {}
  torch::Tensor forward(const torch::Tensor& x, int) override {
    return out(drop(torch::relu(hidden(torch::relu(conv(x)).flatten(1)))));
  }
  torch::nn::Conv2d conv;
  torch::nn::Linear hidden;
  torch::nn::Dropout drop;
  torch::nn::Linear out;
};

struct Conv : Model {
  Conv()
      : conv(register_module("conv", torch::nn::Conv2d(4, 8, 3))),
        out(register_module("out", torch::nn::Linear(32, 10))) {}
  torch::Tensor forward(const torch::Tensor& x, int) override {
    return out(torch::relu(conv(x.reshape({-1, 4, 4, 4}))).flatten(1));
  }
  torch::nn::Conv2d conv;
  torch::nn::Linear out;
};

struct Norm : Model {
  Norm()
      : hidden(register_module("hidden",
                               torch::nn::Linear(torch::nn::LinearOptions(64, 32).bias(false)))),
        norm(register_module("norm", torch::nn::BatchNorm1d(32))),
        out(register_module("out", torch::nn::Linear(32, 10))) {}
  torch::Tensor forward(const torch::Tensor& x, int) override {
    return out(torch::relu(norm(hidden(x.flatten(1)))));
  }
  torch::nn::Linear hidden;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear out;
};

// Has the same parameters and buffers as Norm.
struct SyncNorm : Model {
  SyncNorm()
      : hidden(register_module("hidden",
                               torch::nn::Linear(torch::nn::LinearOptions(64, 32).bias(false)))),
        norm(register_module("norm", ddp::SyncBatchNorm(32))),
        out(register_module("out", torch::nn::Linear(32, 10))) {}
  torch::Tensor forward(const torch::Tensor& x, int) override {
    return out(torch::relu(norm(hidden(x.flatten(1)))));
  }
  torch::nn::Linear hidden;
  ddp::SyncBatchNorm norm;
  torch::nn::Linear out;
};

// `turn` selects the left head, the right head or both. The third head is never used.
struct Heads : Model {
  Heads()
      : trunk(register_module("trunk", torch::nn::Linear(64, 32))),
        left(register_module("left", torch::nn::Linear(32, 10))),
        right(register_module("right", torch::nn::Linear(32, 10))),
        never(register_module("never", torch::nn::Linear(32, 10))) {}
  torch::Tensor forward(const torch::Tensor& x, int turn) override {
    const torch::Tensor y = torch::relu(trunk(x.flatten(1)));
    if (turn % 3 == 0) return left(y);
    if (turn % 3 == 1) return right(y);
    return left(y) + right(y);
  }
  torch::nn::Linear trunk, left, right, never;
};

struct Twice : Model {
  Twice()
      : trunk(register_module("trunk", torch::nn::Linear(64, 64))),
        never(register_module("never", torch::nn::Linear(64, 10))),
        out(register_module("out", torch::nn::Linear(64, 10))) {}
  torch::Tensor forward(const torch::Tensor& x, int) override {
    return out(torch::relu(trunk(torch::relu(trunk(x.flatten(1))))));
  }
  torch::nn::Linear trunk, never, out;
};

// One weight under three names, its bias under two.
struct Tied : Model {
  Tied()
      : first(register_module("first", torch::nn::Linear(64, 64))),
        again(register_module("again", first.ptr())),
        out(register_module("out", torch::nn::Linear(64, 10))),
        copy(register_parameter("copy", first->weight)) {}
  torch::Tensor forward(const torch::Tensor& x, int) override {
    const torch::Tensor y = torch::relu(first(x.flatten(1)));
    return out(torch::relu(again->forward(y.matmul(copy))));
  }
  torch::nn::Linear first;
  std::shared_ptr<torch::nn::LinearImpl> again;
  torch::nn::Linear out;
  torch::Tensor copy;
};

// Float and double parameters never share a bucket.
struct Mixed : Model {
  Mixed()
      : first(register_module("first", torch::nn::Linear(64, 32))),
        out(register_module("out", torch::nn::Linear(32, 10))) {
    out->to(torch::kFloat64);
  }
  torch::Tensor forward(const torch::Tensor& x, int) override {
    return out(torch::relu(first(x.flatten(1))).to(torch::kFloat64));
  }
  torch::nn::Linear first, out;
};

struct Words : Model {
  Words()
      : embedding(register_module(
            "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 16).sparse(true)))),
        bag(register_module(
            "bag", torch::nn::EmbeddingBag(
                       torch::nn::EmbeddingBagOptions(50, 16).sparse(true).mode(torch::kSum)))),
        out(register_module("out", torch::nn::Linear(16, 10))) {}
  torch::Tensor forward(const torch::Tensor& x, int) override {
    const torch::Tensor words = (x.flatten(1).narrow(1, 0, 6).abs() * 15).to(torch::kInt64) % 50;
    return out(2 * embedding(words).mean(1) + 3 * bag(words));
  }
  torch::nn::Embedding embedding;
  torch::nn::EmbeddingBag bag;
  torch::nn::Linear out;
};

inline std::shared_ptr<Model> MakeModel(const std::string& name) {
  if (name == "dense") return std::make_shared<Dense>();
  if (name == "dropout") return std::make_shared<Dense>(0.3);
  if (name == "conv") return std::make_shared<Conv>();
  if (name == "norm") return std::make_shared<Norm>();
  if (name == "heads") return std::make_shared<Heads>();
  if (name == "twice") return std::make_shared<Twice>();
  if (name == "tied") return std::make_shared<Tied>();
  if (name == "mixed") return std::make_shared<Mixed>();
  if (name == "words") return std::make_shared<Words>();
  throw std::invalid_argument("no model '" + name + "'");
}

}  // namespace parity

#endif  // DDPRUN_TESTS_PROGRAMS_PARITY_MODELS_H_
