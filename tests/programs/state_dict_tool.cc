// Reads files that Python wrote with ddp::, and writes files for Python: see test_state_dict.py.
//   describe FILE         the tensors as lines: name, dtype, shape, strides, offset, bytes in hex
//   resave FILE NEW       loads FILE, and saves it as NEW
//   train FILE NEW        loads FILE into a net, adds 1 to everything, and saves the net as NEW
//   serve                 does these in processes that need not load libtorch: for each line of
//                         stdin, with fields separated by tabs (file for stdout, file for stderr,
//                         limit of the address space or 0, and what is to be done), prints how it
//                         ended: its exit code, or its signal as a negative number
#include <ddp/ddp.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

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

int Run(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  const std::size_t count = arguments.size();
  try {
    if (command == "describe" && count == 2) {
      Describe(arguments[1]);
    } else if (command == "resave" && count == 3) {
      ddp::save_state_dict(ddp::load_state_dict(arguments[1]), arguments[2]);
    } else if (command == "train" && count == 3) {
      Train(arguments[1], arguments[2]);
    } else {
      std::cerr << "usage: state_dict_tool serve, then describe FILE | resave FILE NEW | "
                   "train FILE NEW\n";
      return 64;
    }
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
  return 0;
}

void Redirect(const std::string& path, int to) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || dup2(fd, to) != to) _exit(126);
  close(fd);
}

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
  return fields;
}

// Runs in a fork of this process; this process itself uses nothing of libtorch.
int RunInChild(std::vector<std::string> fields) {
  const pid_t child = fork();
  if (child == 0) {
    Redirect(fields[0], STDOUT_FILENO);
    Redirect(fields[1], STDERR_FILENO);
    if (const rlim_t limit = std::stoull(fields[2]); limit > 0) {
      const rlimit bytes = {limit, limit};
      setrlimit(RLIMIT_AS, &bytes);
    }
    const int code = Run({fields.begin() + 3, fields.end()});
    std::cout.flush();
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::string(argv[1]) != "serve") return Run({argv + 1, argv + argc});
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << RunInChild(Fields(line)) << std::endl;
  }
  return 0;
}
