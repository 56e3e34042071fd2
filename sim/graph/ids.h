// Identifiers and small enumerations of the task graph. No dependencies.
#pragma once

#include <cstdint>
#include <limits>

namespace twinstep {

using TaskId = std::uint32_t;
using BufferId = std::uint32_t;
using SliceId = std::uint32_t;       // Index into TaskGraph::slices; 0 = the whole buffer.
using ShapeId = std::uint32_t;       // Index into TaskGraph::shapes.
using RankId = std::uint32_t;        // Index into TaskGraph::ranks (not the global rank).
using RendezvousId = std::uint32_t;  // Index into TaskGraph::rendezvous.
using GroupId = std::uint32_t;       // Index into TaskGraph::groups.

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// Buffers start at multiples of this, and copies move multiples of it.
inline constexpr std::int64_t kBufferAlignment = 256;

inline constexpr std::uint16_t kNoTag = std::numeric_limits<std::uint16_t>::max();

// Where a buffer lives.
enum class Pool : std::uint8_t { kGpu, kPinnedHost, kHost };
inline constexpr int kPoolCount = 3;

enum class Dtype : std::uint8_t { kBf16, kFp16, kFp32, kFp64, kInt32, kUint8 };
inline constexpr int kDtypeCount = 6;

// What a buffer is for; memory reports group by it.
enum class Role : std::uint8_t {
  kInput,           // Token and label ids.
  kParameter,       // Weights as the kernels read them.
  kGradient,        // Accumulated weight gradients.
  kOptimizerState,  // Master weights and Adam moments.
  kActivation,      // Saved by a forward for its backward.
  kOffloadSlot,     // Fixed slots an offloaded activation block passes through.
  kTransient,       // Made and used inside one forward or backward.
  kCommunication,   // Send and receive slots, gathered parameters.
  kWorkspace,       // Scratch of a library kernel.
};
inline constexpr int kRoleCount = 9;

enum class TaskKind : std::uint8_t { kCompute, kH2D, kD2H, kSend, kRecv, kCollective, kHost };
inline constexpr int kTaskKindCount = 7;
inline bool IsCopy(TaskKind kind) { return kind == TaskKind::kH2D || kind == TaskKind::kD2H; }

// A lane is a FIFO of one rank, as a CUDA stream is.
enum class Lane : std::uint8_t {
  kCompute,
  kH2D,
  kD2H,
  kTp,
  kCp,
  kDp,
  kSendFwd,
  kRecvFwd,
  kSendBwd,
  kRecvBwd,
  kHost,
};
inline constexpr int kLaneCount = 11;

enum class Phase : std::uint8_t {
  kForward,
  kRecompute,
  kBackward,
  kGradientSync,
  kOptimizer,
  kParameterGather
};
inline constexpr int kPhaseCount = 6;

// Bytes of one element.
constexpr std::int64_t DtypeBytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
    case Dtype::kFp16:
      return 2;
    case Dtype::kFp32:
    case Dtype::kInt32:
      return 4;
    case Dtype::kFp64:
      return 8;
    case Dtype::kUint8:
      return 1;
  }
  return 0;
}

// Stable lower-case names ("compute", "h2d", ...), used in JSON, DOT and traces.
const char* Name(Pool pool);
const char* Name(Dtype dtype);
const char* Name(Role role);
const char* Name(TaskKind kind);
const char* Name(Lane lane);
const char* Name(Phase phase);

}  // namespace twinstep
