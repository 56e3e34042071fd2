// What a device must be able to do so that the executor can train on it: memory, lanes as in-order
// queues, events between them, and the four kinds of work (operators, copies, collectives and
// point-to-point messages).
//
//   CpuBackend backend({.threads = 4});
//   Status ready = backend.Prepare(program);            // Arenas, queues, events.
//   backend.Write(weights, 0, bytes);                   // Initial values.
//   backend.BeginIteration(step, std::nullopt, /*stall_limit_s=*/30);
//   backend.Launch(gemm);                               // On the lane of its task.
//   backend.Record(program.event[gemm], gemm);
//   backend.Wait(program.event[gemm], send);            // The lane of `send`.
//   backend.Exchange(rendezvous);                       // SEND and RECV, or one task a rank.
//   backend.Synchronize();
//
// The calls of an iteration come from one thread, in an order in which a Record comes before the
// Waits for its event, and a rendezvous after everything that its members wait for. They return
// without waiting for the work; Wait may wait until the event can be waited for, which takes
// nothing that is called later.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "exec/runtime/program.h"
#include "sim/result.h"

namespace twinstep {

// Nanoseconds since the iteration began.
struct TaskTime {
  std::int64_t start_ns = 0;  // Of a rendezvous: when its last member was ready.
  std::int64_t end_ns = 0;
};

// On the device, now; of several devices on the fullest.
struct BackendMemory {
  std::int64_t used_bytes = 0;  // By all processes, as the driver says; arenas never shrink.
  std::int64_t total_bytes = 0;
  std::int64_t arena_bytes = 0;    // The plan's, of all ranks there.
  std::int64_t scratch_bytes = 0;  // Of library kernels, outside of the arenas.
};

enum class Outcome {
  kDone,
  kStalled,  // Nothing has finished for as long as was allowed.
  kFailed,   // error() says why.
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;

  // Allocates the arenas as planned, zeroed, and all that an iteration needs: nothing is allocated
  // later. Once; the program's graph and arena must outlive the backend. Out of memory is an Error
  // (kNo) that names rank, pool and bytes.
  virtual Status Prepare(std::shared_ptr<const Program> program) = 0;

  // Bytes of a buffer, from `offset`. Between iterations; the range must lie inside the buffer.
  virtual void Write(BufferId buffer, std::int64_t offset, std::span<const std::byte> bytes) = 0;
  virtual void Read(BufferId buffer, std::int64_t offset, std::span<std::byte> bytes) const = 0;
  // So many bytes, a block that is not empty again and again; the last one may be cut short.
  virtual void WriteRepeated(BufferId buffer, std::int64_t offset, std::int64_t bytes,
                             std::span<const std::byte> block) {
    const auto size = static_cast<std::int64_t>(block.size());
    for (std::int64_t at = 0; at < bytes; at += size) {
      Write(buffer, offset + at, block.first(static_cast<std::size_t>(std::min(size, bytes - at))));
    }
  }

  // With a seed, a backend that chooses which of several legal tasks runs first draws them at
  // random. An iteration in which nothing finishes for `stall_limit_s` seconds has stalled.
  virtual void BeginIteration(const StepValues& step, std::optional<std::uint64_t> shuffle_seed,
                              double stall_limit_s) = 0;
  // A task without rendezvous.
  virtual void Launch(TaskId task) = 0;
  // All tasks of a rendezvous.
  virtual void Exchange(RendezvousId rendezvous) = 0;
  // The event happens once everything launched so far on the task's lane is done.
  virtual void Record(EventId event, TaskId task) = 0;
  // What is launched from now on on the task's lane waits for the event as recorded last.
  virtual void Wait(EventId event, TaskId task) = 0;
  // Until all is done, or it has stalled. After another outcome than kDone the backend can only be
  // destroyed or asked what has finished.
  virtual Outcome Synchronize() = 0;
  // What went wrong, in an iteration or in reading; without message if nothing has.
  virtual Error error() const = 0;

  // Of the current or last iteration.
  virtual bool Finished(TaskId task) const = 0;
  virtual TaskTime Time(TaskId task) const = 0;

  // Of a backend with memory of its own.
  virtual std::optional<BackendMemory> Memory() const { return std::nullopt; }
  // What a library kernel needs besides the task's operands.
  virtual std::int64_t ScratchBytes(TaskId /*task*/) const { return 0; }
};

}  // namespace twinstep
