#include "rendezvous/store/journal_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/store/journal_format.h"
#include "tests/unit/rendezvous/store/store_driver.h"

namespace ddprun::journal {
namespace journal_reader_test {

using ::testing::HasSubstr;

constexpr std::uint64_t kId = 0x1234567890ABCDEF;

// Builds a journal: it begins with two entries, and a test adds more.
class Builder {
 public:
  Builder() {
    bytes_.assign(kFileHeaderBytes, '\0');
    Add({{"old", "1"}, {"gone", "2"}});
    FileHeader header;
    header.file_id = kId;
    header.first_sequence = 7;
    header.named_bytes = bytes_.size();
    bytes_.replace(0, kFileHeaderBytes, EncodeFileHeader(header));
    Sync();
  }

  void Add(const Store::Batch& batch) {
    starts_.push_back(bytes_.size());
    AppendBatch(kId, sequence_++, synced_, batch, &bytes_);
    Apply(batch, &entries_);
    prefixes_.push_back(entries_);
  }
  void Mark() {
    starts_.push_back(bytes_.size());
    AppendMark(kId, sequence_ - 1, synced_, &bytes_);
    prefixes_.push_back(entries_);
  }
  void Sync() { synced_ = bytes_.size(); }
  void SkipANumber() { ++sequence_; }

  const std::string& bytes() const { return bytes_; }
  const std::vector<std::size_t>& starts() const { return starts_; }
  // The entries of all records before record i, which begins at starts()[i].
  const Entries& Before(std::size_t i) const { return i == 0 ? nothing_ : prefixes_[i - 1]; }
  const Entries& entries() const { return entries_; }

 private:
  std::string bytes_;
  std::uint64_t sequence_ = 7;
  std::uint64_t synced_ = 0;
  Entries entries_;
  const Entries nothing_;
  std::vector<std::size_t> starts_;
  std::vector<Entries> prefixes_;
};

std::string ErrorOf(const std::string& bytes) {
  const absl::StatusOr<Contents> contents = Read(bytes, "dir/journal");
  EXPECT_EQ(contents.status().code(), absl::StatusCode::kDataLoss);
  return std::string(contents.status().message());
}

// Three groups, of one, two and two records. `mark`: a mark follows the last group.
Builder Journal(bool mark) {
  Builder journal;
  journal.Add({{"a", "alpha"}});
  journal.Sync();
  journal.Add({{"gone", std::nullopt}, {"a", "beta"}});
  journal.Add({{"b", ""}});
  journal.Sync();
  journal.Add({{"c", std::string(50, 'c')}});
  journal.Add({{"a", std::nullopt}, {"d", "delta"}});
  if (mark) {
    journal.Sync();
    journal.Mark();
  }
  return journal;
}

TEST(JournalReaderTest, GivesWhatTheBatchesMake) {
  const Builder journal = Journal(true);
  const absl::StatusOr<Contents> contents = Read(journal.bytes(), "j");
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->entries, journal.entries());
  EXPECT_EQ(contents->entries,
            (Entries{{"b", ""}, {"c", std::string(50, 'c')}, {"d", "delta"}, {"old", "1"}}));
  EXPECT_EQ(contents->next_sequence, 13u);
  EXPECT_EQ(contents->valid_bytes, journal.bytes().size());
  EXPECT_EQ(contents->torn_bytes, 0u);
}

// One byte of a journal is changed. In the last group, the reader may treat this as a torn write;
// if a mark follows the group, only in the mark. Elsewhere it refuses the journal at the changed
// record.
TEST(JournalReaderTest, NoChangedByteMakesAWrongMap) {
  for (const bool mark : {false, true}) {
    const Builder journal = Journal(mark);
    const std::size_t unproven = mark ? journal.starts().size() - 1 : 4;
    for (std::size_t at = 0; at < journal.bytes().size(); ++at) {
      for (const unsigned flip : {0x01u, 0x80u, 0xFFu}) {
        SCOPED_TRACE(absl::StrCat("mark ", mark, ", byte ", at, ", bits ", flip));
        std::string bytes = journal.bytes();
        bytes[at] = static_cast<char>(bytes[at] ^ flip);
        const absl::StatusOr<Contents> contents = Read(bytes, "j");
        std::size_t record = journal.starts().size();  // size(): `at` is in the header
        for (std::size_t i = 0; i < journal.starts().size(); ++i) {
          if (journal.starts()[i] <= at) record = i;
        }
        if (at >= kFileHeaderBytes && record >= unproven) {
          ASSERT_TRUE(contents.ok()) << contents.status();
          EXPECT_EQ(contents->entries, journal.Before(record));
          EXPECT_EQ(contents->valid_bytes, journal.starts()[record]);
          EXPECT_EQ(contents->torn_bytes, bytes.size() - journal.starts()[record]);
        } else {
          const std::size_t offset = at < kFileHeaderBytes ? 0 : journal.starts()[record];
          ASSERT_EQ(contents.status().code(), absl::StatusCode::kDataLoss) << contents.status();
          EXPECT_THAT(std::string(contents.status().message()),
                      HasSubstr(absl::StrCat("j: damaged at byte ", offset, ": ")));
        }
      }
    }
  }
}

TEST(JournalReaderTest, AFileThatEndsEarlyLosesItsLastRecordsOnly) {
  const Builder journal = Journal(true);
  for (std::size_t size = 0; size < journal.bytes().size(); ++size) {
    SCOPED_TRACE(size);
    const absl::StatusOr<Contents> contents = Read(journal.bytes().substr(0, size), "j");
    if (size < journal.starts()[1]) {  // a journal has at least this size when it gets its name
      EXPECT_EQ(contents.status().code(), absl::StatusCode::kDataLoss);
      continue;
    }
    std::size_t whole = 0;
    while (whole + 1 < journal.starts().size() && journal.starts()[whole + 1] <= size) ++whole;
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->entries, journal.Before(whole));
    EXPECT_EQ(contents->torn_bytes, size - journal.starts()[whole]);
  }
}

// The disk may write the second record of a group and lose the first.
TEST(JournalReaderTest, ATornRecordBeforeAWholeOneOfItsGroupIsTorn) {
  const Builder journal = Journal(false);
  std::string bytes = journal.bytes();
  const std::size_t first = journal.starts()[4];
  bytes.replace(first, 16, 16, '\0');
  const absl::StatusOr<Contents> contents = Read(bytes, "j");
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->entries, journal.Before(4));
  EXPECT_EQ(contents->valid_bytes, first);
}

TEST(JournalReaderTest, ZerosBehindTheEndAreTorn) {
  const Builder journal = Journal(true);
  const absl::StatusOr<Contents> contents = Read(journal.bytes() + std::string(5000, '\0'), "j");
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->entries, journal.entries());
  EXPECT_EQ(contents->torn_bytes, 5000u);
}

TEST(JournalReaderTest, DamageSaysWhatItIsAndWhatToDo) {
  const Builder journal = Journal(true);
  std::string bytes = journal.bytes();
  bytes[journal.starts()[1] + kRecordHeaderBytes + 5] ^= 1;
  EXPECT_EQ(ErrorOf(bytes),
            absl::StrCat("dir/journal: damaged at byte ", journal.starts()[1],
                         ": the record has a wrong checksum, and the record at byte ",
                         journal.starts()[2],
                         " says that it was whole on disk. This is no interrupted write: the disk "
                         "or a program changed the file. Restore it from a copy; or move it away, "
                         "and the rendezvous starts without the jobs it knew"));
}

TEST(JournalReaderTest, AFileOfAnotherKindIsRefused) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("damaged at byte 0: the file has 0 bytes"));
  EXPECT_THAT(ErrorOf(std::string(100, 'x')), HasSubstr("not that of a ddprun journal"));
}

TEST(JournalReaderTest, AnotherVersionIsRefusedAsSuch) {
  FileHeader header;
  header.version = 2;
  header.named_bytes = kFileHeaderBytes;
  const absl::Status status = Read(EncodeFileHeader(header), "j").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format version 2 at byte 8, expected 1"));
}

TEST(JournalReaderTest, ARecordOfALaterVersionIsRefusedAsSuch) {
  Builder journal;
  RecordHeader header;
  header.type = 9;
  header.sequence = 8;
  header.body_checksum = BodyChecksum(kId, {});
  const absl::Status status = Read(journal.bytes() + EncodeRecordHeader(kId, header), "j").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a record of type 9 at byte"));
}

TEST(JournalReaderTest, AGapInTheNumbersIsRefused) {
  Builder journal;
  journal.SkipANumber();
  journal.Add({{"a", "b"}});
  EXPECT_THAT(ErrorOf(journal.bytes()),
              HasSubstr(absl::StrCat("damaged at byte ", journal.starts().back(),
                                     ": the record has number 9, expected 8")));
}

TEST(JournalReaderTest, ARecordThatCannotHaveSeenItsBeginningIsRefused) {
  Builder journal;
  std::string bytes = journal.bytes();
  AppendBatch(kId, 8, bytes.size() + 8, {{"a", "b"}}, &bytes);
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("bytes were on disk before it was written"));
}

TEST(JournalReaderTest, ABodyThatIsNoListOfWritesIsRefused) {
  for (const std::string& body :
       {std::string(), std::string(3, '\0'), std::string("\xFF\xFF\xFF\xFF", 4),
        std::string("\1\0\0\0\1\0\0\0\1\0\0\0a", 13), std::string("\0\0\0\0x", 5)}) {
    EXPECT_FALSE(DecodeBatch(body).has_value());
    Builder journal;
    const std::string padded = body + std::string(PaddedBytes(body.size()) - body.size(), '\0');
    RecordHeader header;
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    header.type = static_cast<std::uint32_t>(RecordType::kBatch);
    header.sequence = 8;
    header.body_checksum = BodyChecksum(kId, padded);
    EXPECT_THAT(ErrorOf(journal.bytes() + EncodeRecordHeader(kId, header) + padded),
                HasSubstr("no list of writes"));
  }
}

}  // namespace journal_reader_test
}  // namespace ddprun::journal
