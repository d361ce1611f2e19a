// Makes the JSON Schema of job files from the table of keys. A test keeps
// configs/ddprun.schema.json equal to this schema. `ddprun` does not contain it.
#ifndef DDPRUN_TESTS_UNIT_CONFIG_SCHEMA_H_
#define DDPRUN_TESTS_UNIT_CONFIG_SCHEMA_H_

#include <string>

namespace ddprun {

// JSON Schema, draft 07 (the newest that editors' YAML plugins know well), indented, with a newline
// at the end.
std::string SchemaJson();

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_CONFIG_SCHEMA_H_
