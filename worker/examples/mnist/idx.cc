#include "worker/examples/mnist/idx.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace mnist {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 32;  // far beyond sets like MNIST
constexpr unsigned kReadBytes = 1u << 20;

class Reader {
 public:
  // gzopen also reads plain files.
  explicit Reader(const std::string& path)
      : path_(path), file_(gzopen(path.c_str(), "rb"), &gzclose) {
    if (file_ == nullptr) Fail(std::string("cannot open it: ") + std::strerror(errno));
  }

  // Fills `into`. `what` names the expected contents for an error.
  void Read(std::uint8_t* into, std::size_t size, const std::string& what) {
    std::size_t done = 0;
    while (done < size) {
      const auto chunk = static_cast<unsigned>(std::min<std::size_t>(size - done, kReadBytes));
      const int count = gzread(file_.get(), into + done, chunk);
      if (count < 0) Fail(ZlibError());
      if (count == 0) {
        Fail("it is truncated: it ends after " + std::to_string(done) + " of " +
             std::to_string(size) + " bytes of " + what);
      }
      done += static_cast<std::size_t>(count);
    }
  }

  std::uint32_t ReadNumber(const std::string& what) {
    std::uint8_t b[4];
    Read(b, sizeof(b), what);
    return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
  }

  void ExpectEnd() {
    std::uint8_t extra = 0;
    const int count = gzread(file_.get(), &extra, 1);
    if (count < 0) Fail(ZlibError());
    if (count > 0) Fail("it has more bytes than its header promises");
  }

  [[noreturn]] void Fail(const std::string& reason) const {
    throw std::runtime_error("data file " + path_ + " is not usable: " + reason);
  }

 private:
  std::string ZlibError() const {
    int code = Z_OK;
    const char* const text = gzerror(file_.get(), &code);
    // For a truncated .gz, zlib's own text is "unexpected end of file".
    if (code == Z_BUF_ERROR) return std::string("it is truncated: ") + text;
    return code == Z_ERRNO ? std::strerror(errno) : text;
  }

  const std::string path_;
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file_;
};

std::string Existing(const std::string& directory, const std::string& name) {
  const std::string plain = directory + "/" + name;
  const std::string zipped = plain + ".gz";
  if (access(plain.c_str(), F_OK) == 0) return plain;
  if (access(zipped.c_str(), F_OK) == 0) return zipped;
  throw std::runtime_error("data file " + plain +
                           " is missing, and so is its .gz. --data must name the folder with "
                           "MNIST's four IDX files (scripts/get_mnist.sh fetches them)");
}

}  // namespace

IdxArray ReadIdx(const std::string& directory, const std::string& name, int dimensions) {
  Reader reader(Existing(directory, name));
  // Two zero bytes, then 8 for "unsigned byte", then the number of dimensions.
  const std::uint32_t expected = 0x800u + static_cast<std::uint32_t>(dimensions);
  const std::uint32_t magic = reader.ReadNumber("the magic number");
  if (magic != expected) {
    char text[96];
    std::snprintf(text, sizeof(text),
                  "it has the wrong magic number 0x%08x, expected 0x%08x (IDX, bytes)", magic,
                  expected);
    reader.Fail(text);
  }
  IdxArray array;
  std::uint64_t size = 1;
  for (int i = 0; i < dimensions; ++i) {
    array.extents.push_back(reader.ReadNumber("the header"));
    size *= array.extents.back();
    if (size == 0 || size > kMaxBytes) reader.Fail("its header has an impossible size");
  }
  array.values.resize(size);
  reader.Read(array.values.data(), size, "its contents");
  reader.ExpectEnd();
  return array;
}

}  // namespace mnist
