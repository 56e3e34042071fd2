// The processes that train one plan together, as torchrun, mpirun and srun start them: every one
// runs the same program on its share of the ranks.
//
//   Result<ProcessPlace> place = ReadProcessPlace(std::getenv);
//   Result<std::vector<std::byte>> bytes = ShareFirst(place.value(), mine, /*timeout_s=*/60);
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

struct ProcessPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;   // Among the processes of this host.
  std::string address;  // Of the host of process 0, where `port` is free.
  int port = 0;
};

// From RANK, WORLD_SIZE and LOCAL_RANK, or Open MPI's or Slurm's variables in their place, and
// MASTER_ADDR and MASTER_PORT; one process where none is set. torchrun itself listens on
// MASTER_PORT, so the next port is ours. An Error names the variable that is missing or wrong.
Result<ProcessPlace> ReadProcessPlace(const std::function<const char*(const char*)>& variable);

// Ranks of process `place`, [first, end), of a plan's: equal shares in order of rank. An Error if
// the ranks cannot be split evenly.
struct RankRange {
  std::size_t first = 0, end = 0;
};
Result<RankRange> RanksOfProcess(std::size_t ranks, const ProcessPlace& place);

// Process 0's bytes, in every process, through TCP. All call it once. An Error after `timeout_s`
// seconds without the others.
Result<std::vector<std::byte>> ShareFirst(const ProcessPlace& place,
                                          const std::vector<std::byte>& bytes, double timeout_s);

}  // namespace twinstep
