// configs/ddprun.schema.json, which editors read, allows the keys and values that the loader takes.
#include "tests/unit/launcher/config/schema.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_values.h"
#include "launcher/config/yaml_config.h"
#include "nlohmann/json.hpp"
#include "tests/unit/launcher/config/fake_host.h"

namespace ddprun {
namespace schema_test {

using nlohmann::json;
using testing::HasSubstr;

const char kSchemaFile[] = DDPRUN_CONFIGS_DIR "/ddprun.schema.json";

std::string ReadSchemaFile() {
  std::ifstream file(kSchemaFile);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Property {
  std::string section;
  std::string name;
  json schema;

  std::string Path() const { return section.empty() ? name : section + "." + name; }
  // A job file that sets this key alone, named `as`, to `value`.
  std::string File(const std::string& as, const json& value) const {
    json job = {{"command", "a"}};
    (section.empty() ? job : job[section])[as] = value;
    return job.dump();
  }
};

// The leaves of the checked-in schema.
std::vector<Property> Properties() {
  std::vector<Property> properties;
  const json schema = json::parse(ReadSchemaFile());
  for (const auto& [name, property] : schema.at("properties").items()) {
    if (!property.contains("properties")) {
      properties.push_back({"", name, property});
      continue;
    }
    EXPECT_EQ(property.at("additionalProperties"), false) << name;
    for (const auto& [inner_name, inner] : property.at("properties").items()) {
      properties.push_back({name, inner_name, inner});
    }
  }
  EXPECT_EQ(schema.at("additionalProperties"), false);
  return properties;
}

// An error, or "" where the file loads.
std::string ErrorOf(const std::string& text) {
  const auto config = ParseJob(text, "f", FakeHost());
  return config.ok() ? "" : std::string(config.status().message());
}

TEST(SchemaTest, CheckedInFileIsTheGeneratedOne) {
  if (std::getenv("DDPRUN_REWRITE") != nullptr) std::ofstream(kSchemaFile) << SchemaJson();
  EXPECT_EQ(ReadSchemaFile(), SchemaJson())
      << "run this test with DDPRUN_REWRITE=1 to write " << kSchemaFile << " anew";
}

TEST(SchemaTest, HasExactlyTheKeysOfTheLoader) {
  std::set<std::string> in_schema;
  for (const Property& property : Properties()) in_schema.insert(property.Path());
  std::set<std::string> in_loader;
  for (const JobKey& key : JobKeys()) in_loader.insert(key.Path());
  EXPECT_EQ(in_schema, in_loader);
}

TEST(SchemaTest, LoaderTakesEachKeyAndItsDefault) {
  for (const Property& property : Properties()) {
    if (property.name == "command") continue;  // has no default
    EXPECT_EQ(ErrorOf(property.File(property.name, property.schema.at("default"))), "")
        << property.Path();
  }
}

TEST(SchemaTest, LoaderRefusesEachKeyWithAnotherName) {
  for (const Property& property : Properties()) {
    EXPECT_THAT(ErrorOf(property.File(property.name + "_", "1")), HasSubstr("unknown key"))
        << property.Path();
  }
}

TEST(SchemaTest, DefaultsAreThoseOfAJobThatSetsNothing) {
  const JobDraft nothing_set;
  for (const Property& property : Properties()) {
    if (property.name == "command" || property.name == "env") continue;
    const json& value = property.schema.at("default");
    EXPECT_EQ(value.is_string() ? value.get<std::string>() : value.dump(),
              FormatValue(*FindJobKey(property.Path()), nothing_set))
        << property.Path();
  }
}

TEST(SchemaTest, RangesEndWhereTheLoadersDo) {
  int ranges = 0;
  for (const Property& property : Properties()) {
    const json& schema = property.schema;
    const json& number = schema.contains("anyOf") ? schema["anyOf"][0] : schema;
    if (!number.contains("maximum")) continue;
    ++ranges;
    const auto min = number.at("minimum").get<std::int64_t>();
    const auto max = number.at("maximum").get<std::int64_t>();
    EXPECT_THAT(ErrorOf(property.File(property.name, min)), testing::Not(HasSubstr("expected a")));
    EXPECT_THAT(ErrorOf(property.File(property.name, max)), testing::Not(HasSubstr("expected a")));
    EXPECT_THAT(ErrorOf(property.File(property.name, min - 1)), HasSubstr("expected a"));
    EXPECT_THAT(ErrorOf(property.File(property.name, max + 1)), HasSubstr("expected a"));
  }
  EXPECT_EQ(ranges, 18) << "nodes, nproc_per_node, rendezvous.master_port, restart.max_restarts, "
                           "restart.max_membership_changes, "
                           "restart.never_on, quarantine, warm, hang.quarantine, logs.keep_runs "
                           "and slurm.nodes, spare_nodes, "
                           "gpus_per_node, cpus_per_task, and kubernetes.gpus_per_node, "
                           "run_as, pod_failures, requeues";
}

TEST(SchemaTest, EveryKeyIsDescribed) {
  for (const Property& property : Properties()) {
    EXPECT_GT(property.schema.at("description").get<std::string>().size(), 20U) << property.Path();
    EXPECT_EQ(property.schema.at("title"), property.name);
  }
}

}  // namespace schema_test
}  // namespace ddprun
