// Poison mode: checks every access of a running graph, and fills dead bytes with NaN.
//
// Checked when a task starts: a buffer that it reads holds exactly the writes that come before the
// task in issue order, and nobody writes it; a buffer that it writes has been accessed by all tasks
// that come before, and by nobody else; bytes that a buffer takes when it comes to life belong to
// no live buffer. A buffer lives from its first access to its last; persistent ones always.
// All non-persistent bytes are NaN (of any float type: all bits set) when an iteration starts, a
// buffer's when its last access has ended; so are the shards of parameters that a rank only holds
// stale.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sim/graph/arena.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

class AccessMonitor {
 public:
  // First byte of each rank's arenas.
  using ArenaBases = std::vector<std::array<std::byte*, kPoolCount>>;

  // Graph and arena must outlive the monitor.
  AccessMonitor(const TaskGraph& graph, const ArenaPlan& arena, ArenaBases bases);

  void BeginIteration();
  // False after the first violation, which violation() describes: task, buffer, rank.
  bool Start(TaskId id);
  bool End(TaskId id);
  std::string violation() const;

  // Bytes up to the end of the last one that was ever touched, by rank and pool.
  std::vector<std::array<std::int64_t, kPoolCount>> touched_bytes() const;

 private:
  // What has happened to a buffer in this iteration.
  struct Use {
    std::uint32_t accesses = 0, writes = 0;  // Ended; a task counts once.
    std::uint32_t readers = 0, writers = 0;  // Running.
    bool alive = false;
  };
  // One task's access to one buffer, and what must have happened before.
  struct Access {
    BufferId buffer = kNone;
    bool writes = false;
    std::uint32_t accesses_before = 0, writes_before = 0;
    std::int64_t end = 0;  // Last byte + 1 of the buffer that it touches.
  };

  // Bytes of a parameter buffer that are another rank's shard.
  struct StaleRange {
    BufferId buffer = kNone;
    std::int64_t offset = 0, bytes = 0;
  };

  void ListAccesses();
  void ListStaleShards();
  bool Check(TaskId id, const Access& access);
  bool BeginLife(TaskId id, BufferId buffer);
  bool Fail(TaskId id, BufferId buffer, const std::string& text);
  void Poison(BufferId buffer, std::int64_t offset, std::int64_t bytes);
  std::map<std::int64_t, BufferId>& LiveIn(BufferId buffer);

  const TaskGraph& graph_;
  const ArenaPlan& arena_;
  ArenaBases bases_;
  std::vector<std::uint32_t> access_begin_;  // tasks + 1 entries.
  std::vector<Access> accesses_;
  std::vector<std::uint32_t> access_count_;  // By buffer, of an iteration.
  std::vector<StaleRange> stale_;

  mutable std::mutex mutex_;
  std::vector<Use> uses_;  // By buffer.
  // Live buffers by offset, for each rank and pool.
  std::vector<std::array<std::map<std::int64_t, BufferId>, kPoolCount>> live_;
  std::vector<std::array<std::int64_t, kPoolCount>> touched_;
  std::optional<std::string> violation_;
};

}  // namespace twinstep
