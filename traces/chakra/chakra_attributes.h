// Attributes by which our own Chakra files keep what the format has no field for. Other tools pass
// over them.
#pragma once

namespace twinstep {

// Of the first message: a Trace message without its events.
inline constexpr char kTraceAttribute[] = "twinstep.trace";
// Of nodes.
inline constexpr char kTaskAttribute[] = "twinstep.task";
inline constexpr char kOperatorAttribute[] = "twinstep.operator";
inline constexpr char kLaneAttribute[] = "twinstep.lane";
inline constexpr char kPhaseAttribute[] = "twinstep.phase";
inline constexpr char kKindAttribute[] = "twinstep.kind";
inline constexpr char kReadyAttribute[] = "twinstep.ready_ps";
inline constexpr char kStartAttribute[] = "twinstep.start_ps";
inline constexpr char kEndAttribute[] = "twinstep.end_ps";
inline constexpr char kBytesAttribute[] = "twinstep.bytes";
inline constexpr char kMicroBatchAttribute[] = "twinstep.micro_batch";
inline constexpr char kStageAttribute[] = "twinstep.stage";
inline constexpr char kBlockAttribute[] = "twinstep.block";
inline constexpr char kChunkAttribute[] = "twinstep.chunk";
// A node that stands for the second half of a task: it receives what a ring shift sends.
inline constexpr char kSecondHalfAttribute[] = "twinstep.second_half";

}  // namespace twinstep
