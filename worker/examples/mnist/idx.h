// Reads IDX files, the format of MNIST, plain or gzipped. Does not use libtorch.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_IDX_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_IDX_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mnist {

// An array of bytes. The first extent is the number of items.
struct IdxArray {
  std::vector<std::uint32_t> extents;
  std::vector<std::uint8_t> values;
};

// Reads directory/name, or directory/name.gz if the first does not exist. The file must have
// `dimensions` dimensions, and exactly as many bytes as its header says. Throws std::runtime_error,
// which names the path, the reason, and what was expected.
IdxArray ReadIdx(const std::string& directory, const std::string& name, int dimensions);

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_IDX_H_
