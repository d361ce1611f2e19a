#include "tests/unit/launcher/config/schema.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/job_draft.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_values.h"
#include "nlohmann/json.hpp"

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

// The loader accepts 3 and true as text, too.
const Json kScalar = {"string", "number", "boolean"};

Json Number(const JobKey& key) {
  return {{"type", "integer"}, {"minimum", key.min}, {"maximum", key.max}};
}

Json Text(const std::string& pattern) { return {{"type", "string"}, {"pattern", pattern}}; }

Json NumberOr(const JobKey& key, const std::string& pattern) {
  return {{"anyOf", {Number(key), Text(pattern)}}};
}

// True and false may be written without quotes.
Json Choice(const JobKey& key) {
  Json words = Json::array();
  Json switches = Json::array();
  for (const absl::string_view choice : key.Choices()) {
    words.push_back(choice);
    if (choice == "true" || choice == "false") switches.push_back(choice == "true");
  }
  words.insert(words.end(), switches.begin(), switches.end());
  return {{"enum", words}};
}

// The schema of a value of this key.
Json Shape(const JobKey& key) {
  switch (key.type) {
    case KeyType::kBoolean:
      return {{"type", "boolean"}};
    case KeyType::kInteger:
      return Number(key);
    case KeyType::kName:
      return {{"type", {"string", "integer"}},
              {"minimum", 0},
              {"pattern", "^[A-Za-z0-9_][A-Za-z0-9_.:@+=-]{0,127}$"}};
    case KeyType::kAddress:
      return Text("^[A-Za-z0-9._:%-]*$");
    case KeyType::kPath:
      return {{"type", kScalar}};
    case KeyType::kDuration:
      if (key.min > 0) return Text("^[0-9]+(ms|s|min|h)$");
      return {{"anyOf", {Text("^([0-9]+(ms|s|min|h)|0)$"), {{"const", 0}}}}};
    case KeyType::kNumbers:
      return {{"anyOf",
               {Number(key),
                Text("^([0-9]+(, *[0-9]+)*)?$"),
                {{"type", "array"}, {"items", Number(key)}}}}};
    case KeyType::kEndpoint:
      return Text("^(|[A-Za-z0-9._-]+(:[0-9]+)?|\\[[A-Za-z0-9._:%-]+\\](:[0-9]+)?)$");
    case KeyType::kEndpoints: {
      const std::string one = "([A-Za-z0-9._-]+|\\[[A-Za-z0-9._:%-]+\\])(:[0-9]+)?";
      return Text(absl::StrCat("^(", one, "( *, *", one, "){0,8})?$"));
    }
    case KeyType::kNodes:
      return NumberOr(key, "^[0-9]+(:[0-9]+)?$");
    case KeyType::kProcesses:
      return NumberOr(key, "^(auto|gpu|cpu|[0-9]+)$");
    case KeyType::kStandbys:
      return NumberOr(key, "^(auto|[0-9]+)$");
    case KeyType::kText:
      return {{"type", kScalar}};
    case KeyType::kOptions:
      return {
          {"anyOf", {{{"type", "string"}}, {{"type", "array"}, {"items", Text("^-[^\\n]+$")}}}}};
    case KeyType::kModules: {
      const std::string name = "[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*";
      return {{"anyOf",
               {Text(absl::StrCat("^ *(", name, " *(, *", name, " *)*)?$")),
                {{"type", "array"}, {"items", Text(absl::StrCat("^", name, "$"))}}}}};
    }
    case KeyType::kCommand:
      return {{"anyOf",
               {{{"type", "string"}, {"minLength", 1}},
                {{"type", "array"}, {"minItems", 1}, {"items", {{"type", kScalar}}}}}}};
    case KeyType::kEnvironment:
      return {{"type", "object"},
              {"propertyNames", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}}},
              {"additionalProperties", {{"type", kScalar}}}};
    case KeyType::kStreams:
      return {
          {"anyOf", {{{"enum", {0, 1, 2, 3}}}, Text("^([0-3]|[0-9]+:[0-3](,[0-9]+:[0-3])*)$")}}};
    case KeyType::kLocalRanks:
      return {{"type", {"string", "integer"}},
              {"minimum", 0},
              {"pattern", "^( *[0-9]+ *(, *[0-9]+ *)*)?$"}};
    case KeyType::kChoice:
      return Choice(key);
    case KeyType::kHangTimeout:
      return {{"anyOf", {{{"enum", {"auto", "off"}}}, Text("^[0-9]+(ms|s|min|h)$")}}};
    case KeyType::kSignal:
      return {
          {"enum", {"SIGABRT", "SIGQUIT", "SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGKILL"}}};
    case KeyType::kSize:
      return {{"anyOf", {Text("^([0-9]+(KiB|MiB|GiB|TiB)|0)$"), {{"const", 0}}}}};
  }
  return {};
}

Json Default(const JobKey& key, const JobDraft& draft) {
  const std::string text = FormatValue(key, draft);
  switch (key.type) {
    case KeyType::kBoolean:
    case KeyType::kInteger:
    case KeyType::kNodes:
    case KeyType::kProcesses:
    case KeyType::kStandbys:
      return Json::parse(text);
    case KeyType::kEnvironment:
      return Json::object();
    default:
      return text;
  }
}

Json Property(const JobKey& key) {
  Json property = {{"title", key.name}, {"description", key.description}};
  property.update(Shape(key));
  if (key.type != KeyType::kCommand) property["default"] = Default(key, JobDraft());
  return property;
}

Json Properties(absl::string_view section) {
  Json properties = Json::object();
  for (const JobKey& key : JobKeys()) {
    if (key.section == section) properties[std::string(key.name)] = Property(key);
  }
  return properties;
}

}  // namespace

std::string SchemaJson() {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "ddprun job file"},
                 {"description",
                  "A data-parallel training job, for `ddprun -c FILE`. Flags and the environment "
                  "win over the file. Made from the table in launcher/config/job_keys.cc."},
                 {"type", "object"},
                 {"additionalProperties", false},
                 {"properties", Properties("")}};
  for (const JobSection& section : JobSections()) {
    schema["properties"][std::string(section.name)] = {{"title", section.name},
                                                       {"description", section.description},
                                                       {"type", "object"},
                                                       {"additionalProperties", false},
                                                       {"properties", Properties(section.name)}};
  }
  return absl::StrCat(schema.dump(2), "\n");
}

}  // namespace ddprun
