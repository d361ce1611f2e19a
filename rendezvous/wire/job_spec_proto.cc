// Translates JobSpec by the description of its fields. Each member's field in v1::JobSpec has the
// same name and the matching type (bool and int: uint32, Duration: int64 in milliseconds).
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "rendezvous/wire/parts.h"
#include "rendezvous/wire/text.h"

namespace ddprun::wire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// The proto's fields in the order of ForEachField(). Each Join needs them all, so they are looked
// up by name only once.
const std::vector<const FieldDescriptor*>& Fields() {
  static const auto* const kFields = [] {
    auto* const fields = new std::vector<const FieldDescriptor*>;
    ForEachField([&](auto, const JobSpecField& field) {
      fields->push_back(v1::JobSpec::descriptor()->FindFieldByName(field.wire));
    });
    return fields;
  }();
  return *kFields;
}

// Rounded up, so that a timeout never becomes shorter.
std::int64_t MillisecondsRoundedUp(Duration duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration).count();
}

class Writer {
 public:
  explicit Writer(v1::JobSpec* to) : to_(to), reflection_(*to->GetReflection()) {}

  void Write(const FieldDescriptor* at, int value) { reflection_.SetUInt32(to_, at, value); }
  void Write(const FieldDescriptor* at, bool value) {
    reflection_.SetUInt32(to_, at, value ? 1 : 0);
  }
  void Write(const FieldDescriptor* at, Duration value) {
    reflection_.SetInt64(to_, at, MillisecondsRoundedUp(value));
  }
  void Write(const FieldDescriptor* at, const std::optional<Duration>& value) {
    if (value) Write(at, *value);
  }
  void Write(const FieldDescriptor* at, const std::vector<int>& values) {
    for (const int value : values) reflection_.AddUInt32(to_, at, value);
  }
  void Write(const FieldDescriptor* at, const std::string& value) {
    reflection_.SetString(to_, at, CleanText(value, kMaxMessageBytes));
  }

 private:
  v1::JobSpec* const to_;
  const Reflection& reflection_;
};

class Reader {
 public:
  Reader(const v1::JobSpec& from, FieldChecker& check)
      : from_(from), reflection_(*from.GetReflection()), check_(check) {}

  void Read(const FieldDescriptor* at, const JobSpecField& field, int* value) {
    *value = check_.Number(Name(field), reflection_.GetUInt32(from_, at), field.min, field.max);
  }
  void Read(const FieldDescriptor* at, const JobSpecField& field, bool* value) {
    int number = 0;
    Read(at, field, &number);
    *value = number != 0;
  }
  void Read(const FieldDescriptor* at, const JobSpecField& field, Duration* value) {
    *value =
        check_.Timeout(Name(field), reflection_.GetInt64(from_, at),
                       std::chrono::milliseconds(field.min), std::chrono::milliseconds(field.max));
  }
  void Read(const FieldDescriptor* at, const JobSpecField& field, std::optional<Duration>* value) {
    if (reflection_.HasField(from_, at)) Read(at, field, &value->emplace());
  }
  void Read(const FieldDescriptor* at, const JobSpecField& field, std::vector<int>* values) {
    const int size = reflection_.FieldSize(from_, at);
    check_.Number(absl::StrCat(Name(field), ": number of codes"), size, 0, kMaxNeverRestartOn);
    if (size > kMaxNeverRestartOn) return;
    for (int i = 0; i < size; ++i) {
      values->push_back(check_.Number(Name(field), reflection_.GetRepeatedUInt32(from_, at, i),
                                      field.min, field.max));
    }
  }
  void Read(const FieldDescriptor* at, const JobSpecField& field, std::string* value) {
    const std::string text = reflection_.GetString(from_, at);
    if (!text.empty()) *value = check_.Name(Name(field), text, field.max);
  }

 private:
  // Valid until the next call.
  const std::string& Name(const JobSpecField& field) {
    name_.assign("JobSpec.").append(field.wire);
    return name_;
  }

  const v1::JobSpec& from_;
  const Reflection& reflection_;
  FieldChecker& check_;
  std::string name_;  // one buffer for all names, because each Join needs all of them
};

}  // namespace

void Fill(const JobSpec& from, v1::JobSpec* to) {
  Writer writer(to);
  auto at = Fields().begin();
  ForEachField([&](auto member, const JobSpecField&) { writer.Write(*at++, from.*member); });
}

JobSpec ReadJobSpec(const v1::JobSpec& from, FieldChecker& check) {
  JobSpec to;
  Reader reader(from, check);
  auto at = Fields().begin();
  ForEachField([&](auto member, JobSpecField field) {
    if (field.wire == std::string_view("max_nodes")) field.min = to.min_nodes;
    reader.Read(*at++, field, &(to.*member));
  });
  return to;
}

}  // namespace ddprun::wire
