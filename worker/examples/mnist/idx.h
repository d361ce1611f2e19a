// Reads the IDX files in which MNIST comes, plain or gzipped. No libtorch.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_IDX_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_IDX_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mnist {

// An array of bytes: the first extent is the number of items.
struct IdxArray {
  std::vector<std::uint32_t> extents;
  std::vector<std::uint8_t> values;
};

// Reads directory/name, or directory/name.gz if that is not there. The file must have `dimensions`
// dimensions and exactly the bytes that its header promises. Throws std::runtime_error, whose
// text holds path, reason and what was expected.
IdxArray ReadIdx(const std::string& directory, const std::string& name, int dimensions);

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_IDX_H_
