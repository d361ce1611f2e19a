// Maps the programs and libraries of several processes into one artificial address space, so that
// each image is opened and its tables are read only once. Internal to the unwinder.
#ifndef DDPRUN_LAUNCHER_STACKS_IMAGES_H_
#define DDPRUN_LAUNCHER_STACKS_IMAGES_H_

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "launcher/stacks/memory_map.h"
#include "worker/contract/unique_fd.h"

namespace ddprun::stacks {

// Code of one process: its addresses [start, end) are [start + shift, end + shift) in the
// artificial address space.
struct CodeRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t shift = 0;
};

class Images {
 public:
  Images();
  ~Images();
  Images(const Images&) = delete;
  Images& operator=(const Images&) = delete;

  // Adds the code of process `pid`; returns it in the order of addresses. Skips images that cannot
  // be opened. Add all processes before Ready().
  std::vector<CodeRange> Add(int pid, const std::vector<Mapping>& maps);

  Dwfl* Ready();

  // Reads a word of an image's file, by its artificial address; false: no such word.
  bool Read(std::uint64_t address, std::uint64_t* word) const;

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t, std::string>;
  struct Segment {
    std::uint64_t address = 0;  // in the image
    std::uint64_t offset = 0;   // in the file
    std::uint64_t size = 0;     // in the file
    bool executable = false;
  };
  struct Image {
    UniqueFd file;
    std::vector<Segment> segments;
    std::uint64_t base = 0;  // artificial address minus address in the image
  };

  Image* Open(int pid, const Mapping& mapping);
  bool Place(const std::string& path, bool fixed, Image* image);

  Dwfl* dwfl_;
  std::uint64_t next_base_;
  std::map<Key, std::unique_ptr<Image>> images_;  // nullptr: cannot be opened
};

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_IMAGES_H_
