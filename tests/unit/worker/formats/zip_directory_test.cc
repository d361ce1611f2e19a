#include "worker/src/formats/zip_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/worker/support/file_makers.h"
#include "worker/src/formats/format_error.h"

namespace ddp::internal {
namespace zip_directory_test {

using ::ddp::test::MakeZip;
using ::ddp::test::ZipItem;
using ::ddp::test::ZipOptions;
using ::testing::HasSubstr;

std::string Reason(const std::string& file) {
  try {
    const ZipDirectory zip(file);
  } catch (const FormatError& e) {
    return e.what();
  }
  return "it is fine";
}

const std::vector<ZipItem>& Two() {
  static const auto* const kTwo =
      new std::vector<ZipItem>{{"a/x", "content", 0, 0, 0, 0, ""}, {"a/y", "", 0, 0, 0, 0, ""}};
  return *kTwo;
}

TEST(ZipDirectoryTest, FindsTheBytesOfEntries) {
  for (const bool zip64 : {false, true}) {
    ZipOptions options;
    options.zip64 = zip64;
    options.comment = "a comment";
    const std::string file = MakeZip(Two(), options);
    const ZipDirectory zip(file);
    EXPECT_EQ(zip.folder(), "a");
    EXPECT_EQ(zip.Read("a/x"), "content");
    EXPECT_EQ(zip.Read("a/y"), "");
    EXPECT_TRUE(zip.Has("a/x"));
    EXPECT_FALSE(zip.Has("a/z"));
    EXPECT_THROW(zip.Read("a/z"), FormatError);
  }
}

TEST(ZipDirectoryTest, RefusesEveryTruncation) {
  const std::string file = MakeZip(Two());
  for (std::size_t size = 0; size < file.size(); ++size) {
    ASSERT_THAT(Reason(file.substr(0, size)), HasSubstr("cut short")) << size;
  }
}

TEST(ZipDirectoryTest, RefusesEntriesThatOverlap) {
  std::vector<ZipItem> items = Two();
  items[0].extra_size = 4;  // reaches into the header of the next entry
  items[0].flags = 8;
  EXPECT_THAT(Reason(MakeZip(items)), HasSubstr("overlap"));
  // The shape of a zip bomb: an entry whose content includes another whole entry with its header.
  const std::string inner = MakeZip({{"a/y", "content", 0, 0, 0, 0, ""}});
  const std::string stored = inner.substr(0, inner.find("PK\1\2"));
  items = {{"a/x", stored, 0, 0, 0, 0, ""}, {"a/y", "content", 0, 0, 0, 0, ""}};
  items[1].extra_offset = -static_cast<std::int64_t>(stored.size());
  EXPECT_THAT(Reason(MakeZip(items)), HasSubstr("overlap"));
}

TEST(ZipDirectoryTest, RefusesSizesAndOffsetsThatAreNotThere) {
  std::vector<ZipItem> items = Two();
  items[1].extra_size = 1 << 30;
  items[1].flags = 8;
  EXPECT_THAT(Reason(MakeZip(items)), HasSubstr("outside of the file"));
  ZipOptions zip64;
  zip64.zip64 = true;
  items[1].extra_size = -1;  // 2^64 - 1
  EXPECT_THAT(Reason(MakeZip(items, zip64)), HasSubstr("outside of the file"));
  items = Two();
  items[0].extra_size = 1;  // contradicts the local header
  EXPECT_THAT(Reason(MakeZip(items)), HasSubstr("do not agree on the size"));
  items = Two();
  items[1].extra_offset = 1 << 20;
  EXPECT_THAT(Reason(MakeZip(items)), HasSubstr("outside of the file"));
  items[1].extra_offset = 1;
  EXPECT_THAT(Reason(MakeZip(items)), HasSubstr("do not agree"));
  ZipOptions options;
  options.extra_directory_offset = 1 << 20;
  EXPECT_THAT(Reason(MakeZip(Two(), options)), HasSubstr("outside of the file"));
}

TEST(ZipDirectoryTest, RefusesAWrongNumberOfEntries) {
  ZipOptions options;
  options.extra_entries = 60000;
  EXPECT_THAT(Reason(MakeZip(Two(), options)), HasSubstr("no room"));
  options.zip64 = true;
  options.extra_entries = std::int64_t{1} << 60;
  EXPECT_THAT(Reason(MakeZip(Two(), options)), HasSubstr("no room"));
  options.zip64 = false;
  options.extra_entries = -1;
  EXPECT_THAT(Reason(MakeZip(Two(), options)), HasSubstr("more entries"));
}

TEST(ZipDirectoryTest, RefusesWhatIsEncryptedOrNamedTwice) {
  std::vector<ZipItem> items = Two();
  items[0].flags = 1;
  EXPECT_THAT(Reason(MakeZip(items)), HasSubstr("encrypted"));
  items = Two();
  items[1].name = items[0].name;
  EXPECT_THAT(Reason(MakeZip(items)), HasSubstr("twice"));
  items = Two();
  items[1].local_name = "b/y";
  EXPECT_THAT(Reason(MakeZip(items)), HasSubstr("do not agree"));
}

// Nothing is decompressed, so an entry cannot become larger than its bytes.
TEST(ZipDirectoryTest, RefusesToReadWhatIsCompressed) {
  std::vector<ZipItem> items = Two();
  items[1].method = 8;
  const std::string file = MakeZip(items);
  const ZipDirectory zip(file);
  EXPECT_EQ(zip.Read("a/x"), "content");
  EXPECT_THROW(zip.Read("a/y"), FormatError);
}

}  // namespace zip_directory_test
}  // namespace ddp::internal
