#include "worker/src/formats/zip_directory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/src/formats/format_error.h"

// Names and offsets of fields follow APPNOTE.TXT, sections 4.3.7 to 4.5.3.
namespace ddp::internal {
namespace {

constexpr std::string_view kLocalHeader = "PK\3\4";
constexpr std::string_view kCentralHeader = "PK\1\2";
constexpr std::string_view kEnd = "PK\5\6";
constexpr std::string_view kZip64End = "PK\6\6";
constexpr std::string_view kZip64Locator = "PK\6\7";
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kZip64EndBytes = 56;
constexpr std::size_t kZip64LocatorBytes = 20;
constexpr std::size_t kMaxCommentBytes = 0xffff;
constexpr std::uint64_t kIn64 = 0xffffffff;  // the value is in the ZIP64 field
constexpr std::uint64_t kEncrypted = 1 << 0;
constexpr std::uint64_t kSizesFollow = 1 << 3;  // the local header may omit the sizes

[[noreturn]] void Fail(const std::string& what) { throw FormatError("its zip directory " + what); }

// The `size` bytes at `offset` in `bytes`. `offset` and `size` are untrusted.
std::string_view Cut(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) Fail("points outside of the file");
  return bytes.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

// The little-endian number of `size` bytes at `offset`.
std::uint64_t Number(std::string_view bytes, std::uint64_t offset, std::size_t size) {
  const std::string_view digits = Cut(bytes, offset, size);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
  }
  return value;
}

bool Begins(std::string_view bytes, std::string_view magic) {
  return bytes.substr(0, magic.size()) == magic;
}

struct Directory {
  std::uint64_t entries = 0;
  std::string_view bytes;
  std::uint64_t offset = 0;
};

std::size_t FindEnd(std::string_view file) {
  if (file.size() >= kEndBytes) {
    const std::size_t last = file.size() - kEndBytes;
    const std::size_t first = last - std::min(last, kMaxCommentBytes);
    for (std::size_t at = last + 1; at-- > first;) {
      if (Begins(file.substr(at), kEnd) && Number(file, at + 20, 2) == last - at) return at;
    }
  }
  Fail("is missing: the file is cut short, or no zip file");
}

Directory FindDirectory(std::string_view file) {
  std::uint64_t end = FindEnd(file);
  std::uint64_t disks = Number(file, end + 4, 2) | Number(file, end + 6, 2);
  std::uint64_t here = Number(file, end + 8, 2);
  std::uint64_t entries = Number(file, end + 10, 2);
  std::uint64_t size = Number(file, end + 12, 4);
  std::uint64_t offset = Number(file, end + 16, 4);
  if (end >= kZip64LocatorBytes && Begins(file.substr(end - kZip64LocatorBytes), kZip64Locator)) {
    const std::uint64_t at = Number(file, end - kZip64LocatorBytes + 8, 8);
    const std::string_view record = Cut(file, at, kZip64EndBytes);
    if (!Begins(record, kZip64End)) Fail("has no ZIP64 end where it should be");
    disks = Number(record, 16, 4) | Number(record, 20, 4);
    here = Number(record, 24, 8);
    entries = Number(record, 32, 8);
    size = Number(record, 40, 8);
    offset = Number(record, 48, 8);
    end = at;
  }
  if (disks != 0 || here != entries) Fail("is of a file in several parts");
  if (offset > end || size > end - offset) Fail("points outside of the file");
  if (entries > size / kCentralBytes) Fail("has no room for the entries that it claims");
  return {entries, Cut(file, offset, size), offset};
}

struct Record {
  std::uint64_t flags = 0;
  std::uint64_t method = 0;
  std::uint64_t packed = 0;  // size in the file
  std::uint64_t size = 0;    // size of the content
  std::uint64_t offset = 0;  // of the local header
  std::string_view name;
  std::size_t length = 0;  // of the record itself
};

// Replaces the values that are in the ZIP64 field. The field has the values in this order, but only
// the values whose normal place refers to the field.
void ReadZip64(std::string_view extra, Record* record) {
  while (extra.size() >= 4) {
    const std::string_view field = Cut(extra, 4, Number(extra, 2, 2));
    if (Number(extra, 0, 2) == 1) {
      std::uint64_t at = 0;
      for (std::uint64_t* const value : {&record->size, &record->packed, &record->offset}) {
        if (*value != kIn64) continue;
        *value = Number(field, at, 8);
        at += 8;
      }
      return;
    }
    extra.remove_prefix(4 + field.size());
  }
}

Record ReadRecord(std::string_view bytes) {
  if (!Begins(bytes, kCentralHeader)) Fail("has fewer entries than it claims");
  Record record;
  record.flags = Number(bytes, 8, 2);
  record.method = Number(bytes, 10, 2);
  record.packed = Number(bytes, 20, 4);
  record.size = Number(bytes, 24, 4);
  const std::uint64_t name = Number(bytes, 28, 2);
  const std::uint64_t extra = Number(bytes, 30, 2);
  const std::uint64_t comment = Number(bytes, 32, 2);
  record.offset = Number(bytes, 42, 4);
  record.name = Cut(bytes, kCentralBytes, name);
  ReadZip64(Cut(bytes, kCentralBytes + name, extra), &record);
  record.length = Cut(bytes, 0, kCentralBytes + name + extra + comment).size();
  return record;
}

// The content of `record`. `file` must end where the directory begins.
std::string_view Locate(std::string_view file, const Record& record) {
  const std::string name = "entry " + Quoted(record.name);
  if ((record.flags & kEncrypted) != 0) Fail("has the encrypted " + name);
  if (record.method == 0 && record.size != record.packed) {
    Fail("gives two sizes to the uncompressed " + name);
  }
  const std::string_view header = Cut(file, record.offset, kLocalBytes);
  const std::uint64_t name_size = Number(header, 26, 2);
  const std::uint64_t extra_size = Number(header, 28, 2);
  const std::uint64_t packed = Number(header, 18, 4);
  if (!Begins(header, kLocalHeader) || Number(header, 8, 2) != record.method ||
      Cut(file, record.offset + kLocalBytes, name_size) != record.name) {
    Fail("and the local header do not agree on " + name);
  }
  if ((record.flags & kSizesFollow) == 0 && packed != kIn64 && packed != record.packed) {
    Fail("and the local header do not agree on the size of " + name);
  }
  return Cut(file, record.offset + kLocalBytes + name_size + extra_size, record.packed);
}

}  // namespace

ZipDirectory::ZipDirectory(std::string_view file) {
  const Directory directory = FindDirectory(file);
  const std::string_view contents = file.substr(0, static_cast<std::size_t>(directory.offset));
  std::string_view rest = directory.bytes;
  std::vector<std::pair<std::size_t, std::size_t>> taken;  // [begin, end) of each entry
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const Record record = ReadRecord(rest);
    rest.remove_prefix(record.length);
    const std::string_view bytes = Locate(contents, record);
    taken.emplace_back(static_cast<std::size_t>(record.offset),
                       static_cast<std::size_t>(bytes.data() - file.data()) + bytes.size());
    if (!entries_.insert({record.name, {bytes, record.method != 0}}).second) {
      Fail("has entry " + Quoted(record.name) + " twice");
    }
    if (i == 0) folder_ = record.name.substr(0, record.name.find('/'));
  }
  if (!rest.empty()) Fail("has more entries than it claims");
  std::sort(taken.begin(), taken.end());
  for (std::size_t i = 1; i < taken.size(); ++i) {
    if (taken[i].first < taken[i - 1].second) Fail("has entries that overlap");
  }
}

std::string_view ZipDirectory::Read(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) Fail("has no entry " + Quoted(name));
  if (found->second.compressed) Fail("has the entry " + Quoted(name) + " compressed");
  return found->second.bytes;
}

}  // namespace ddp::internal
