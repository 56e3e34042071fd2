#include "traces/show/timeline.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "sim/graph/ids.h"
#include "traces/breakdown.h"
#include "traces/imported_names.h"

namespace twinstep {
namespace {

static_assert(kOtherTimeClass == static_cast<std::uint8_t>(TimeClass::kBubble));

using Names = google::protobuf::RepeatedPtrField<std::string>;

// By index into a trace's table of names, the enumerator of that name.
template <typename Enum>
std::vector<std::optional<Enum>> Enumerators(const Names& names, int count) {
  std::vector<std::optional<Enum>> result;
  for (const std::string& name : names) {
    std::optional<Enum> found;
    for (int i = 0; i < count; ++i) {
      if (name == Name(static_cast<Enum>(i))) found = static_cast<Enum>(i);
    }
    result.push_back(found);
  }
  return result;
}

// Of events of a known kind in a lane that is not ours.
std::uint8_t ClassWithoutLane(TaskKind kind, std::optional<Phase> phase) {
  switch (kind) {
    case TaskKind::kSend:
    case TaskKind::kRecv:
    case TaskKind::kCollective:
      return kCommunicationTimeClass;
    default:
      return static_cast<std::uint8_t>(
          ClassOf(kind, Lane::kCompute, phase.value_or(Phase::kForward)));
  }
}

std::vector<std::uint8_t> TimeClasses(const Trace& trace) {
  const auto lanes = Enumerators<Lane>(trace.lanes(), kLaneCount);
  const auto kinds = Enumerators<TaskKind>(trace.kinds(), kTaskKindCount);
  const auto phases = Enumerators<Phase>(trace.phases(), kPhaseCount);
  std::vector<std::uint8_t> classes;
  for (int i = 0; i < trace.task_size(); ++i) {
    const auto lane = lanes[trace.lane(i)];
    const auto kind = kinds[trace.kind(i)];
    const auto phase = phases[trace.phase(i)];
    if (!kind) {
      const bool copies = trace.kinds(static_cast<int>(trace.kind(i))) == kPeerCopyKind;
      classes.push_back(copies ? static_cast<std::uint8_t>(TimeClass::kCopies) : kOtherTimeClass);
    } else if (!lane || !phase) {
      classes.push_back(ClassWithoutLane(*kind, phase));
    } else {
      classes.push_back(static_cast<std::uint8_t>(ClassOf(*kind, *lane, *phase)));
    }
  }
  return classes;
}

// Puts each event of a lane into the first row that is free by then.
class LaneRows {
 public:
  explicit LaneRows(const Trace& trace) : trace_(trace) {}

  void Add(int event) {
    const auto free = std::find_if(rows_.begin(), rows_.end(), [&](const auto& row) {
      return trace_.end_ps(row.back()) <= trace_.start_ps(event);
    });
    if (free == rows_.end()) {
      rows_.push_back({event});
    } else {
      free->push_back(event);
    }
  }

  void MoveTo(std::uint32_t rank, std::uint32_t lane, Timeline* timeline) {
    for (const std::vector<int>& row : rows_) {
      const std::size_t begin = timeline->events.size();
      timeline->events.insert(timeline->events.end(), row.begin(), row.end());
      timeline->rows.push_back({rank, lane, begin, timeline->events.size()});
    }
    rows_.clear();
  }

 private:
  const Trace& trace_;
  std::vector<std::vector<int>> rows_;
};

}  // namespace

Timeline ArrangeRows(const Trace& trace) {
  std::vector<int> order(static_cast<std::size_t>(trace.task_size()));
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&trace](int event) {
    return std::tuple(trace.rank(event), trace.lane(event), trace.start_ps(event),
                      trace.end_ps(event), trace.task(event));
  };
  std::sort(order.begin(), order.end(), [&key](int a, int b) { return key(a) < key(b); });

  Timeline timeline;
  timeline.events.reserve(order.size());
  LaneRows rows(trace);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int event = order[i];
    rows.Add(event);
    const bool is_last = i + 1 == order.size() || trace.rank(order[i + 1]) != trace.rank(event) ||
                         trace.lane(order[i + 1]) != trace.lane(event);
    if (is_last) rows.MoveTo(trace.rank(event), trace.lane(event), &timeline);
  }
  timeline.time_classes = TimeClasses(trace);
  return timeline;
}

}  // namespace twinstep
