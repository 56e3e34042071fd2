// The processes that train one plan together: how they meet, agree and notice who has ended.
//
//   Result<ProcessPlace> place = ReadProcessPlace(std::getenv);
//   Result<std::shared_ptr<Processes>> processes = Processes::Join(place.value(), 60);
//   Status same = processes.value()->Agree({{"lr", "0.001"}});
//   Result<std::vector<std::byte>> id = processes.value()->ShareFirst(mine);
//   if (Status alive = processes.value()->CheckAlive(); !alive.ok()) return alive;
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/runtime/process_place.h"
#include "sim/result.h"

namespace twinstep {

// Connections between process 0 and every other, by TCP, for as long as they train: what is not
// worth a GPU, and who has ended. All processes make the same calls in the same order.
class Processes {
 public:
  // Once all have come. An Error (kNo) after `timeout_s` seconds names those who have not, or says
  // why process 0 is not reached; what listens at its port in its place may be any program.
  static Result<std::shared_ptr<Processes>> Join(const ProcessPlace& place, double timeout_s);
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes();

  const ProcessPlace& place() const { return place_; }
  // Threads that this process should compute with: its share of its host's cores, at least 1.
  int cores() const { return cores_; }

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
  int cores_ = 1;
  std::vector<int> sockets_;  // By process; -1: none. Of others than process 0 only the first's.
};

}  // namespace twinstep
