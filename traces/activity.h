// What the ranks of a trace do, in terms that traces of any origin have in common.
//
//   const Activity activity = SummarizeActivity(trace);
//   activity.part_s[static_cast<std::size_t>(ActivityPart::kIdle)]   // Of the mean rank.
//   activity.classes[static_cast<std::size_t>(OperatorClass::kGemm)].busy_s
//
// Each instant of a rank belongs to the first part that is active: computation, communication,
// copies; what is left is idle. So the parts of a rank add up to the iteration. Other than in
// traces/breakdown.h, which needs to know the lanes, communication is one part, and waiting for a
// partner inside of a kernel of NCCL counts as communication.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "traces/interval_set.h"
#include "traces/operator_class.h"
#include "traces/trace.pb.h"

namespace twinstep {

enum class ActivityPart : std::uint8_t { kCompute, kCommunication, kCopies, kIdle };
inline constexpr int kActivityPartCount = 4;
// "compute", "communication exposed", "copies exposed", "idle".
const char* Label(ActivityPart part);
// "compute_s", "communication_exposed_s", ...
const char* JsonName(ActivityPart part);

struct RankActivity {
  std::uint32_t global_rank = 0;
  std::array<Picoseconds, kActivityPartCount> part_ps{};  // Adds up to the iteration.
};

// Times in seconds of the mean rank.
struct ClassActivity {
  std::int64_t tasks = 0;  // Of all ranks.
  double time_s = 0;       // Durations added up, wherever they ran.
  double busy_s = 0;       // At least one runs.
  double exposed_s = 0;    // ... and nothing that comes first: for communication, computation;
                           // for copies, communication, too.

  double OverlappedSeconds() const { return busy_s - exposed_s; }
};

struct OperatorActivity {
  std::string name;
  OperatorClass operator_class = OperatorClass::kOther;
  std::int64_t tasks = 0;  // Of all ranks.
  double time_s = 0;       // Of the mean rank.
  double median_s = 0;     // Of one task.
};

struct PhaseActivity {
  std::string phase;
  OperatorClass operator_class = OperatorClass::kOther;
  double time_s = 0;  // Of the mean rank.
};

struct Activity {
  double iteration_s = 0;
  std::array<double, kActivityPartCount> part_s{};  // Of the mean rank; adds up to the iteration.
  std::vector<RankActivity> ranks;
  std::array<ClassActivity, kOperatorClassCount> classes{};
  std::vector<OperatorActivity> operators;  // By falling time, then by name.
  std::vector<PhaseActivity> phases;        // Each phase and class that occur together.
  std::int64_t tasks = 0;
  std::int64_t unknown = 0;  // Events of a kind that counts nowhere.
};

// `trace` holds what its schema says (traces/check_trace.h).
Activity SummarizeActivity(const Trace& trace);

}  // namespace twinstep
