// The faults of a run. Their times are drawn at the beginning, their kinds at these times.
#ifndef DDPRUN_TESTS_SIMULATION_FAULTS_H_
#define DDPRUN_TESTS_SIMULATION_FAULTS_H_

namespace ddprun::sim {

struct World;

// Starts the daemon and the agents, plans the faults, and their end. `world` outlives the run.
void Populate(World* world);

// Call it when the agent of `host` has started its workers. On the plan's flapping host, this soon
// kills the agent and starts another one.
void Flap(World* world, int host);

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_FAULTS_H_
