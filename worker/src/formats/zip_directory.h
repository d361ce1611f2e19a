// Finds and checks the entries of an untrusted zip file.
//
// This is own code although Debian has zip libraries. The reader needs the address of an
// uncompressed entry's bytes, to use them in place. libzip does not give this address, and insists
// on checksums that torch.save may omit. minizip gives it only with four calls per entry and
// callbacks for memory, and checks neither overlaps nor local headers. libtorch's reader
// (caffe2::serialize, miniz) allocates the size that an entry claims, and would require libtorch. A
// zip directory has 46 bytes and a name per entry, so the code is short.
#ifndef DDPRUN_WORKER_SRC_FORMATS_ZIP_DIRECTORY_H_
#define DDPRUN_WORKER_SRC_FORMATS_ZIP_DIRECTORY_H_

#include <cstddef>
#include <string_view>
#include <unordered_map>

namespace ddp::internal {

class ZipDirectory {
 public:
  // `file` is the content of a zip file, with or without ZIP64. It must outlive this object. Memory
  // use is proportional to the entries that exist. The constructor decompresses nothing, and
  // ignores checksums: PyTorch writes and reads files without them.
  //
  // Throws FormatError if the file is no zip file, is cut short or has several parts. Also throws
  // FormatError if entries are encrypted, overlap each other or the directory, lie outside of the
  // file, share a name, or have a local header that contradicts the directory.
  explicit ZipDirectory(std::string_view file);

  // The bytes of an entry, as a view into the file. Throws FormatError if no entry has that name,
  // or if it is compressed. PyTorch never compresses the entries that matter.
  std::string_view Read(std::string_view name) const;
  bool Has(std::string_view name) const { return entries_.count(name) != 0; }

  // The name of the first entry up to the first '/'. PyTorch puts all entries in one folder.
  std::string_view folder() const { return folder_; }

 private:
  struct Entry {
    std::string_view bytes;
    bool compressed = false;
  };

  std::unordered_map<std::string_view, Entry> entries_;  // the names are views into the file
  std::string_view folder_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_ZIP_DIRECTORY_H_
