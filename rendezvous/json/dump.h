// JSON as text that a terminal may show. Pure.
#ifndef DDPRUN_RENDEZVOUS_JSON_DUMP_H_
#define DDPRUN_RENDEZVOUS_JSON_DUMP_H_

#include <nlohmann/json.hpp>
#include <string>

namespace ddprun {

// `indent` −1: on one line. Strings may come from workers, agents and file names. So invalid UTF-8
// is replaced, and every control character in a string is escaped, also DEL and U+0080 to U+009F,
// which JSON itself allows.
std::string Dump(const nlohmann::ordered_json& json, int indent);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_JSON_DUMP_H_
