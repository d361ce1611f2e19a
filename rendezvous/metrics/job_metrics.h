// The series of jobs and of their nodes, for DaemonMetrics. Pure.
#ifndef DDPRUN_RENDEZVOUS_METRICS_JOB_METRICS_H_
#define DDPRUN_RENDEZVOUS_METRICS_JOB_METRICS_H_

#include <vector>

#include "rendezvous/core/job_status.h"
#include "rendezvous/metrics/daemon_metrics.h"
#include "rendezvous/metrics/metric_writer.h"

namespace ddprun::metrics {

void AddJobs(const std::vector<JobStatus>& jobs, MetricWriter* writer);

// At most six series for each node; one of them only if ranks of the node keep the others waiting.
// With Hosts::kNamed, several agents of a job on one host are HOST, HOST#2, HOST#3.
void AddNodes(const std::vector<JobStatus>& jobs, Hosts hosts, MetricWriter* writer);

}  // namespace ddprun::metrics

#endif  // DDPRUN_RENDEZVOUS_METRICS_JOB_METRICS_H_
