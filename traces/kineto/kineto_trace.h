// What a profile of PyTorch (Kineto) or another Chrome trace of a GPU says: one process, usually
// one rank. Times are nanoseconds as the file has them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace twinstep {

inline constexpr std::uint32_t kNoIndex = 0xffffffff;

struct HostSpan {
  std::int64_t start_ns = 0, end_ns = 0;
  std::uint32_t thread = 0;  // Into KinetoTrace::threads.
  std::uint32_t name = 0;    // Into KinetoTrace::names.
};

// A call of the CUDA or HIP runtime or driver.
struct HostCall {
  HostSpan span;
  std::int64_t correlation = -1;
};

enum class DeviceKind : std::uint8_t { kKernel, kMemcpy, kMemset };

struct DeviceEvent {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t correlation = -1;  // Of the call that launched it.
  std::int64_t bytes = 0;         // Copies; collectives: their larger side.
  std::uint32_t name = 0;
  std::uint32_t stream = 0;             // Into KinetoTrace::streams.
  std::uint32_t collective = kNoIndex;  // Into names: what NCCL was asked for ("allreduce").
  std::uint32_t group = kNoIndex;       // Into names: the process group.
  std::uint32_t group_size = 0;
  std::int64_t partner = -1;      // Of a message: the global rank of the other end.
  std::uint32_t call = kNoIndex;  // Into KinetoTrace::calls; kNoIndex where the file lacks it.
  DeviceKind kind = DeviceKind::kKernel;
};

struct KinetoStream {
  std::int64_t device = 0;
  std::string name;  // "7".
};

// A stream that waits for an event, or the host that waits for the device.
struct SyncEvent {
  std::int64_t correlation = -1;
  std::int64_t recorded_by = -1;           // Correlation of the cudaEventRecord that is waited for.
  std::uint32_t stream = kNoIndex;         // That waits; kNoIndex: the host.
  std::uint32_t waited_stream = kNoIndex;  // That is waited for; kNoIndex: the whole device.
};

struct StepMark {
  std::int64_t number = 0;
  std::int64_t start_ns = 0, end_ns = 0;
};

// Kinds of a file's events and how many there were.
struct KinetoCounts {
  std::int64_t events = 0;
  std::map<std::string, std::int64_t> read;     // Category -> events used.
  std::map<std::string, std::int64_t> unknown;  // Category -> events of no known one, kept.
  std::map<std::string, std::int64_t> skipped;  // Reason -> events.
};

struct KinetoTrace {
  std::string path;
  std::optional<std::int64_t> rank, world_size;
  bool is_unclosed = false;               // A bare list of events that ends without its bracket.
  std::vector<std::string> device_names;  // "NVIDIA H200", by index.
  std::int64_t base_ns = 0;               // Added to a time it is nanoseconds since 1970.
  std::vector<std::string> names, threads;
  std::vector<KinetoStream> streams;

  std::vector<DeviceEvent> device;
  std::vector<HostCall> calls;
  std::vector<SyncEvent> syncs;
  std::vector<HostSpan> host_ops;     // Operators on the host, nested as they ran.
  std::vector<HostSpan> annotations;  // Marks of the program; those of steps are in `steps`.
  std::vector<HostSpan> unknown;      // Of categories that this reader does not know.
  std::vector<StepMark> steps;        // By start.
  KinetoCounts counts;
};

}  // namespace twinstep
