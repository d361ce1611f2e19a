// What ddp:: makes of files that Python wrote, and files for Python to read: see
// test_state_dict.py.
//   describe FILE         the tensors as lines: name, dtype, shape, strides, offset, bytes in hex
//   resave FILE NEW       loads the one, saves the other
//   train FILE NEW        loads FILE into a net, adds 1 to everything, saves it
#include <ddp/ddp.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(1, 2, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(2));
    body = register_module(
        "body",
        torch::nn::Sequential(torch::nn::Linear(8, 4), torch::nn::ReLU(),
                              torch::nn::Linear(torch::nn::LinearOptions(4, 2).bias(false))));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential body;
};
TORCH_MODULE(Net);

void Describe(const std::string& path) {
  for (const auto& item : ddp::load_state_dict(path)) {
    const torch::Tensor& tensor = item.value();
    std::cout << item.key() << '\t' << c10::toString(tensor.scalar_type()) << '\t' << tensor.sizes()
              << '\t' << tensor.strides() << '\t' << tensor.storage_offset() << '\t';
    const torch::Tensor flat = tensor.contiguous();
    const auto* const bytes = static_cast<const unsigned char*>(flat.data_ptr());
    for (std::size_t i = 0; i < flat.nbytes(); ++i) {
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x", bytes[i]);
      std::cout << digits;
    }
    std::cout << '\n';
  }
}

void Train(const std::string& from, const std::string& to) {
  Net net;
  ddp::load_into(*net, ddp::load_state_dict(from));
  const ddp::StateDict weights = ddp::state_dict(*net);
  for (const auto& item : weights) item.value().add_(1);
  ddp::save_state_dict(weights, to);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 2 ? argv[1] : "";
  try {
    if (command == "describe" && argc == 3) {
      Describe(argv[2]);
    } else if (command == "resave" && argc == 4) {
      ddp::save_state_dict(ddp::load_state_dict(argv[2]), argv[3]);
    } else if (command == "train" && argc == 4) {
      Train(argv[2], argv[3]);
    } else {
      std::cerr << "usage: state_dict_tool describe FILE | resave FILE NEW | train FILE NEW\n";
      return 64;
    }
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
  return 0;
}
