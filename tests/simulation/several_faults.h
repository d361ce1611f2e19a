// The faults of several rendezvous, of their etcd, and of the links between them.
#ifndef DDPRUN_TESTS_SIMULATION_SEVERAL_FAULTS_H_
#define DDPRUN_TESTS_SIMULATION_SEVERAL_FAULTS_H_

namespace ddprun::sim {

struct World;

// Starts the rendezvous other than the first, and plans these faults. `world` outlives the run.
void PopulateSeveral(World* world);

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_SEVERAL_FAULTS_H_
