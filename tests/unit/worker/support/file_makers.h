// Makes zip and safetensors files byte by byte, valid and invalid ones, for tests of their readers.
#ifndef DDPRUN_TESTS_UNIT_WORKER_SUPPORT_FILE_MAKERS_H_
#define DDPRUN_TESTS_UNIT_WORKER_SUPPORT_FILE_MAKERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp::test {

// `value` in `size` bytes, little-endian.
inline std::string Little(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

struct ZipItem {
  std::string name;
  std::string content;
  // What the zip directory states about this entry, true or false.
  std::uint64_t method = 0;
  std::uint64_t flags = 0;
  std::int64_t extra_size = 0;    // added to the stated size
  std::int64_t extra_offset = 0;  // added to the stated offset
  std::string local_name;         // if not `name`
};

struct ZipOptions {
  bool zip64 = false;
  std::int64_t extra_entries = 0;  // added to the stated number of entries
  std::int64_t extra_directory_offset = 0;
  std::string comment;
};

inline std::string MakeZip(const std::vector<ZipItem>& items, const ZipOptions& options = {}) {
  std::string file;
  std::string directory;
  for (const ZipItem& item : items) {
    const std::uint64_t offset = file.size() + static_cast<std::uint64_t>(item.extra_offset);
    const std::uint64_t size = item.content.size() + static_cast<std::uint64_t>(item.extra_size);
    const std::string local = item.local_name.empty() ? item.name : item.local_name;
    const std::string common = Little(20, 2) + Little(item.flags, 2) + Little(item.method, 2) +
                               Little(0, 4) + Little(0, 4);
    file += "PK\3\4" + common + Little(item.content.size(), 4) + Little(item.content.size(), 4) +
            Little(local.size(), 2) + Little(3, 2) + local + "pad" + item.content;
    const std::string in64 = options.zip64 ? Little(1, 2) + Little(24, 2) + Little(size, 8) +
                                                 Little(size, 8) + Little(offset, 8)
                                           : "";
    const auto field = [&](std::uint64_t value) {
      return options.zip64 ? Little(0xffffffff, 4) : Little(value, 4);
    };
    directory += "PK\1\2" + Little(20, 2) + common + field(size) + field(size) +
                 Little(item.name.size(), 2) + Little(in64.size(), 2) + Little(0, 2) +
                 Little(0, 2) + Little(0, 2) + Little(0, 4) + field(offset) + item.name + in64;
  }
  const std::uint64_t entries = items.size() + static_cast<std::uint64_t>(options.extra_entries);
  const std::uint64_t offset =
      file.size() + static_cast<std::uint64_t>(options.extra_directory_offset);
  file += directory;
  if (options.zip64) {
    const std::uint64_t end = file.size();
    file += "PK\6\6" + Little(44, 8) + Little(45, 2) + Little(45, 2) + Little(0, 4) + Little(0, 4) +
            Little(entries, 8) + Little(entries, 8) + Little(directory.size(), 8) +
            Little(offset, 8);
    file += "PK\6\7" + Little(0, 4) + Little(end, 8) + Little(1, 4);
  }
  return file + "PK\5\6" + Little(0, 4) + Little(entries, 2) + Little(entries, 2) +
         Little(directory.size(), 4) + Little(offset, 4) + Little(options.comment.size(), 2) +
         options.comment;
}

// A safetensors file.
inline std::string MakeSafetensors(const std::string& header, const std::string& data) {
  return Little(header.size(), 8) + header + data;
}

}  // namespace ddp::test

#endif  // DDPRUN_TESTS_UNIT_WORKER_SUPPORT_FILE_MAKERS_H_
