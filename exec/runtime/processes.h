// The processes that train one plan together, as torchrun, mpirun and srun start them: every one
// runs the same program on its share of the ranks.
//
//   Result<ProcessPlace> place = ReadProcessPlace(std::getenv);
//   Result<std::shared_ptr<Processes>> processes = Processes::Join(place.value(), 60);
//   Status same = processes.value()->Agree({{"lr", "0.001"}});
//   Result<std::vector<std::byte>> id = processes.value()->ShareFirst(mine);
//   if (Status alive = processes.value()->CheckAlive(); !alive.ok()) return alive;
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
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

// From RANK, WORLD_SIZE and LOCAL_RANK, or the variables of Open MPI, Slurm or MPICH in their
// place; one process where none is set. Process 0's host and port are MASTER_ADDR and MASTER_PORT,
// by default where Open MPI has all processes on one host, or where Slurm put the first, and 29500.
// torchrun itself listens on MASTER_PORT, so the next port is ours. An Error (kBadInput) names the
// variable that is missing or wrong.
Result<ProcessPlace> ReadProcessPlace(const std::function<const char*(const char*)>& variable);

// Ranks of process `place`, [first, end), of a plan's: equal shares in order of rank. An Error if
// the ranks cannot be split evenly.
struct RankRange {
  std::size_t first = 0, end = 0;
};
Result<RankRange> RanksOfProcess(std::size_t ranks, const ProcessPlace& place);

// Connections between process 0 and every other, by TCP, for as long as they train: what is not
// worth a GPU, and who has ended. All processes make the same calls in the same order.
class Processes {
 public:
  // Once all have come. An Error (kNo) after `timeout_s` seconds names those who have not.
  static Result<std::shared_ptr<Processes>> Join(const ProcessPlace& place, double timeout_s);
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes();

  const ProcessPlace& place() const { return place_; }

  // Process 0's bytes, in every process, once all have called it. Waits as long as all live: an
  // Error (kNo) names one that has ended.
  Result<std::vector<std::byte>> ShareFirst(std::span<const std::byte> bytes) const;
  // An Error (kBadInput) where a setting differs from process 0's; as ShareFirst besides.
  Status Agree(const std::map<std::string, std::string>& settings) const;
  // An Error (kNo) names a process that has ended, as far as this one is connected. At once.
  Status CheckAlive() const;

 private:
  explicit Processes(const ProcessPlace& place) : place_(place) {}

  ProcessPlace place_;
  std::vector<int> sockets_;  // By process; -1: none. Of others than process 0 only the first's.
};

}  // namespace twinstep
