// The entries of a zip file, found and checked in a file that somebody else wrote.
//
// Own code, though Debian has libraries: what is needed is where the bytes of an uncompressed entry
// lie, so that they can be used where they are. libzip does not tell, and insists on checksums that
// torch.save may leave out; minizip tells, by four calls for each entry that take callbacks for
// memory, and checks neither overlaps nor what the local headers say; libtorch's own reader
// (caffe2::serialize, miniz) allocates what an entry claims, and would bring libtorch along. The
// directory of a zip file is 46 bytes and a name for each entry, which fits below.
#ifndef DDPRUN_WORKER_SRC_FORMATS_ZIP_DIRECTORY_H_
#define DDPRUN_WORKER_SRC_FORMATS_ZIP_DIRECTORY_H_

#include <cstddef>
#include <string_view>
#include <unordered_map>

namespace ddp::internal {

class ZipDirectory {
 public:
  // `file` is the content of a zip file, with or without ZIP64, and must outlive this object. Takes
  // memory in proportion to the entries that are there. Nothing is decompressed, and no checksum
  // is looked at: PyTorch writes and reads files without them.
  //
  // Throws FormatError: not a zip file, cut short, or of several parts; encrypted entries; entries
  // that overlap each other or the directory, lie outside of the file, have one name, or
  // whose local header says something else than the directory.
  explicit ZipDirectory(std::string_view file);

  // The bytes of an entry, in the file; throws FormatError if there is none of that name or it is
  // compressed, which no file of PyTorch's has where it matters.
  std::string_view Read(std::string_view name) const;
  bool Has(std::string_view name) const { return entries_.count(name) != 0; }

  // Up to the first '/', of the directory's first entry: PyTorch has all its entries in one folder.
  std::string_view folder() const { return folder_; }

 private:
  struct Entry {
    std::string_view bytes;
    bool compressed = false;
  };

  std::unordered_map<std::string_view, Entry> entries_;  // names are in the file
  std::string_view folder_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_ZIP_DIRECTORY_H_
