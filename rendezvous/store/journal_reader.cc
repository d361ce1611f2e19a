#include "rendezvous/store/journal_reader.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/store/journal_format.h"

namespace ddprun::journal {
namespace {

class Reader {
 public:
  Reader(std::string_view file, const std::string& path) : file_(file), path_(path) {}

  absl::StatusOr<Contents> Run() {
    if (absl::Status status = ReadFileHeader(); !status.ok()) return status;
    while (offset_ < file_.size()) {
      const std::optional<RecordHeader> record = DecodeRecordHeader(header_.file_id, Rest());
      const char* const broken = WhyBroken(record);
      if (broken != nullptr) {
        if (absl::Status status = RefuseUnlessTorn(broken); !status.ok()) return status;
        break;
      }
      if (absl::Status status = Take(*record); !status.ok()) return status;
    }
    contents_.valid_bytes = offset_;
    contents_.torn_bytes = file_.size() - offset_;
    return std::move(contents_);
  }

 private:
  std::string_view Rest() const { return file_.substr(offset_); }

  absl::Status Damaged(const std::string& what) const {
    return absl::DataLossError(absl::StrCat(
        path_, ": damaged at byte ", offset_, ": ", what,
        ". This is no interrupted write: the disk or a program changed the file. Restore it from a "
        "copy; or move it away, and the rendezvous starts without the jobs it knew"));
  }

  absl::Status ReadFileHeader() {
    const std::optional<FileHeader> header = DecodeFileHeader(file_);
    if (!header) {
      return Damaged(file_.size() < kFileHeaderBytes
                         ? absl::StrCat("the file has ", file_.size(), " bytes, expected at least ",
                                        kFileHeaderBytes)
                         : "the header is not that of a ddprun journal");
    }
    if (header->version != kVersion) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": format version ", header->version, " at byte 8, expected ", kVersion,
          ": another version of ddprun wrote it. Run that one; or move the file away, and the "
          "rendezvous starts without the jobs it knew"));
    }
    header_ = *header;
    if (file_.size() < header_.named_bytes) {
      offset_ = file_.size();
      return Damaged(absl::StrCat("the file ends here, but had ", header_.named_bytes,
                                  " bytes when it was begun"));
    }
    contents_.file_id = header_.file_id;
    contents_.next_sequence = header_.first_sequence;
    offset_ = kFileHeaderBytes;
    return absl::OkStatus();
  }

  // nullptr: the record is complete.
  const char* WhyBroken(const std::optional<RecordHeader>& record) const {
    if (!record) {
      return Rest().size() < kRecordHeaderBytes ? "the record's header is cut off"
                                                : "the record's header has a wrong checksum";
    }
    const std::size_t padded = PaddedBytes(record->body_bytes);
    if (Rest().size() - kRecordHeaderBytes < padded) return "the record is cut off";
    const std::string_view body = Rest().substr(kRecordHeaderBytes, padded);
    if (BodyChecksum(header_.file_id, body) != record->body_checksum) {
      return "the record has a wrong checksum";
    }
    return nullptr;
  }

  // OK if nothing proves that the record at offset_ was ever complete on disk.
  absl::Status RefuseUnlessTorn(const char* broken) const {
    if (offset_ < header_.named_bytes) {
      return Damaged(absl::StrCat(broken, ", but it was whole when the file was begun"));
    }
    // Looks at headers only, so that the scan stays linear. Random file ids keep values from
    // looking like headers.
    for (std::uint64_t later = offset_ + kAlignment; later + kRecordHeaderBytes <= file_.size();
         later += kAlignment) {
      const auto record = DecodeRecordHeader(header_.file_id, file_.substr(later));
      if (record && record->synced > offset_) {
        return Damaged(absl::StrCat(broken, ", and the record at byte ", later,
                                    " says that it was whole on disk"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Take(const RecordHeader& record) {
    if (record.synced > offset_) {
      return Damaged(absl::StrCat("the record says that ", record.synced,
                                  " bytes were on disk before it was written"));
    }
    switch (static_cast<RecordType>(record.type)) {
      case RecordType::kBatch:
        if (absl::Status status = TakeBatch(record); !status.ok()) return status;
        break;
      case RecordType::kMark:
        if (record.sequence + 1 != contents_.next_sequence) return SequenceGap(record, 1);
        if (record.body_bytes != 0) return Damaged("a mark has a body");
        break;
      default:
        return absl::FailedPreconditionError(absl::StrCat(
            path_, ": a record of type ", record.type, " at byte ", offset_,
            ", which this version does not know: another version of ddprun wrote it. Run that one; "
            "or move the file away, and the rendezvous starts without the jobs it knew"));
    }
    offset_ += kRecordHeaderBytes + PaddedBytes(record.body_bytes);
    return absl::OkStatus();
  }

  absl::Status TakeBatch(const RecordHeader& record) {
    if (record.sequence != contents_.next_sequence) return SequenceGap(record, 0);
    std::optional<Store::Batch> batch =
        DecodeBatch(Rest().substr(kRecordHeaderBytes, record.body_bytes));
    if (!batch) return Damaged("the record has a correct checksum, but is no list of writes");
    for (Store::Write& write : *batch) {
      if (write.value) {
        contents_.entries.insert_or_assign(std::move(write.key), *std::move(write.value));
      } else {
        contents_.entries.erase(write.key);
      }
    }
    ++contents_.next_sequence;
    ++contents_.batches;
    return absl::OkStatus();
  }

  absl::Status SequenceGap(const RecordHeader& record, std::uint64_t mark) const {
    return Damaged(absl::StrCat("the record has number ", record.sequence, ", expected ",
                                contents_.next_sequence - mark));
  }

  const std::string_view file_;
  const std::string& path_;  // not owned; outlives the reader
  FileHeader header_;
  std::uint64_t offset_ = 0;
  Contents contents_;
};

}  // namespace

absl::StatusOr<Contents> Read(std::string_view file, const std::string& path) {
  return Reader(file, path).Run();
}

}  // namespace ddprun::journal
