// Plays a scenario: a text file of commands to one JobMachine. Under each command stands what the
// JobMachine did.
//
//     # A comment.
//     job nodes=2:3 workers=1
//     join a
//       * joined a
//       = Gathering: waiting for at least 1 node; here: a
//
// Lines that begin with two spaces are results, all others are commands. Play() returns the same
// commands with their real results; a test compares the two texts.
// docs/internals/contributing.md lists the commands and explains the results.
#ifndef DDPRUN_TESTS_SCENARIO_JOB_SCRIPT_H_
#define DDPRUN_TESTS_SCENARIO_JOB_SCRIPT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/machine/job_machine.h"
#include "tests/scenario/job_command.h"
#include "tests/support/stacks_at_once.h"

namespace ddprun {

class JobScript {
 public:
  JobScript() = default;

  // Throws std::invalid_argument if a line is no command, or has a malformed state, failure or
  // time.
  std::string Play(const std::string& scenario);

 private:
  // One agent, as a client that follows the script; "a#2" is the second agent on host a.
  struct Agent {
    std::string name;
    AgentId agent_id;
    NodeSpec node;
    std::uint32_t requeue_number = 0;
    Generation generation{-1};
    Rank first_rank;
    bool running = false;
    std::vector<SavedState> states;  // the states that its node holds
    FailedCheckpoints failed;        // since it started
    StuckProcesses stuck;
    bool can_look_again = false;
    LookId asked;   // the look that the newest LookAgain or Stop asked for
    LookId looked;  // the look that the agent reported last
  };

  void Execute(const JobCommand& command);
  void Job(const JobCommand& command);
  void JoinAs(const JobCommand& command);
  std::vector<SavedState> States(const JobCommand& command, Agent& agent);
  LookId Looks(const JobCommand& command, Agent& agent);
  FailedCheckpoints Failed(const JobCommand& command, Agent& agent);
  StuckProcesses Stuck(const JobCommand& command, Agent& agent);
  void Exit(const JobCommand& command);
  void Wait(const JobCommand& command);
  void RestartDaemon(const JobCommand& command);
  void ShowStatus();
  Agent& Get(const std::string& name);
  JobMachine& machine();
  void Receive(const JobCommand& command, Agent& agent, AgentMessage message);
  void Step(const JobMachine::Event& event);
  void Show(const JobMachine::Send& send);
  void ShowState();
  void Print(const std::string& line);
  std::string NameOf(AgentId agent_id) const;

  JobSpec spec_;
  JobMachineOptions options_;
  std::unique_ptr<JobMachine> machine_;
  StacksAtOnce stacks_;
  std::optional<JobRecord> record_;
  std::map<std::string, Agent> agents_;
  std::map<std::uint64_t, std::string> names_;  // by agent_id
  int workers_ = 1;
  bool show_acks_ = false;
  bool running_a_wait_ = false;
  TimePoint began_{std::chrono::hours(1)};
  TimePoint now_ = began_;
  std::string state_;  // the state that was printed last
  std::string output_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SCENARIO_JOB_SCRIPT_H_
