// Which of several processes this one is, as torchrun, mpirun and srun say it: every one runs the
// same program on its share of the ranks.
//
//   Result<ProcessPlace> place = ReadProcessPlace(std::getenv);
//   Result<RankRange> own = RanksOfProcess(graph.ranks.size(), place.value());
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "sim/result.h"

namespace twinstep {

// The value of an environment variable, null where it is not set: std::getenv.
using EnvironmentVariable = std::function<const char*(const char*)>;

struct ProcessPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;        // Among the processes of this host.
  std::string address = {};  // Of the host of process 0, where `port` is free.
  int port = 0;
  std::string variable = {};  // Which says that there are several: "WORLD_SIZE".
};

// From RANK, WORLD_SIZE and LOCAL_RANK, or the variables of Open MPI, Slurm or MPICH in their
// place; one process where none is set. Process 0's host and port are MASTER_ADDR and MASTER_PORT,
// by default where Open MPI has all processes on one host, or where Slurm put the first, and 29500.
// torchrun itself listens on MASTER_PORT, so the next port is ours. An Error (kBadInput) names the
// variable that is missing or wrong.
Result<ProcessPlace> ReadProcessPlace(const EnvironmentVariable& variable);

// Of a verb that works in one process: an Error (kBadInput) where a launcher has started several
// names the variable that says so. Where they are, and which is which, does not matter.
Status CheckOneProcess(const EnvironmentVariable& variable, const std::string& verb);

// Ranks of process `place`, [first, end), of a plan's: equal shares in order of rank. An Error if
// the ranks cannot be split evenly.
struct RankRange {
  std::size_t first = 0, end = 0;
};
Result<RankRange> RanksOfProcess(std::size_t ranks, const ProcessPlace& place);

}  // namespace twinstep
