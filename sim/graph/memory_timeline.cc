#include "sim/graph/memory_timeline.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace twinstep {
namespace {

constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kEarliest = std::numeric_limits<std::int64_t>::min();

struct Life {
  std::int64_t first_write = kLatest;
  std::int64_t first_access = kLatest;
  std::int64_t end = kEarliest;

  std::int64_t begin() const { return first_write == kLatest ? first_access : first_write; }
  bool IsEmpty() const { return end <= begin(); }
};

struct Event {
  std::int64_t time_ps = 0;
  std::int64_t bytes = 0;  // Negative: freed.
  Role role = Role::kTransient;
};

std::vector<Life> Lives(const TaskGraph& graph, std::span<const std::int64_t> start_ps,
                        std::span<const std::int64_t> end_ps) {
  std::vector<Life> lives(graph.buffers.size());
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    const auto access = [&](const Operand& operand) -> Life& {
      Life& life = lives[operand.buffer];
      life.first_access = std::min(life.first_access, start_ps[id]);
      life.end = std::max(life.end, end_ps[id]);
      return life;
    };
    for (const Operand& operand : graph.Reads(id)) access(operand);
    for (const Operand& operand : graph.Writes(id)) {
      Life& life = access(operand);
      life.first_write = std::min(life.first_write, start_ps[id]);
    }
  }
  return lives;
}

void Add(MemoryPoint& point, const Event& event) {
  point.total_bytes += event.bytes;
  point.bytes[static_cast<std::size_t>(event.role)] += event.bytes;
}

// Keeps the curve within a number of points, as MemoryTimelineOptions says.
class Sampler {
 public:
  // `count` points will come, between these times.
  Sampler(std::size_t count, std::int64_t first_ps, std::int64_t last_ps, std::size_t max_points)
      : keeps_all_(count <= max_points),
        parts_(std::max<std::size_t>(max_points, 3) - 2),
        first_ps_(first_ps),
        last_ps_(last_ps),
        is_on_(max_points > 0) {}

  void Add(const MemoryPoint& point) {
    if (!is_on_) return;
    if (keeps_all_ || curve_.empty() || point.time_ps == last_ps_) {
      curve_.push_back(point);
      return;
    }
    const std::size_t part = PartOf(point.time_ps);
    if (part != last_part_) {
      curve_.push_back(point);
      last_part_ = part;
    } else if (point.total_bytes > curve_.back().total_bytes) {
      curve_.back() = point;
    }
  }

  std::vector<MemoryPoint> Take() { return std::move(curve_); }

 private:
  static constexpr auto kNoPart = static_cast<std::size_t>(-1);

  std::size_t PartOf(std::int64_t time_ps) const {
    // Picoseconds times a count of points may pass 64 bits.
    __extension__ using Wide = unsigned __int128;
    const auto since = static_cast<std::uint64_t>(time_ps - first_ps_);
    const auto span = static_cast<std::uint64_t>(last_ps_ - first_ps_);
    return static_cast<std::size_t>(Wide{since} * parts_ / (Wide{span} + 1));
  }

  bool keeps_all_;
  std::size_t parts_;
  std::int64_t first_ps_, last_ps_;
  bool is_on_;
  std::size_t last_part_ = kNoPart;
  std::vector<MemoryPoint> curve_;
};

// `point` holds what lives before the first event.
PoolMemory Measure(std::vector<Event> events, MemoryPoint point, std::size_t max_points) {
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.time_ps < b.time_ps; });
  if (!events.empty()) point.time_ps = std::min(point.time_ps, events.front().time_ps);
  std::size_t count = 1;
  std::int64_t previous_ps = point.time_ps;
  for (const Event& event : events) {
    count += event.time_ps != previous_ps ? 1 : 0;
    previous_ps = event.time_ps;
  }
  Sampler sampler(count, point.time_ps, previous_ps, max_points);

  PoolMemory memory;
  memory.peak_bytes = -1;
  for (auto event = events.begin();;) {
    while (event != events.end() && event->time_ps == point.time_ps) Add(point, *event++);
    sampler.Add(point);
    if (point.total_bytes > memory.peak_bytes) {
      memory.peak_bytes = point.total_bytes;
      memory.peak_time_ps = point.time_ps;
      memory.at_peak = point.bytes;
    }
    for (std::size_t role = 0; role < kRoleCount; ++role) {
      memory.role_peak[role] = std::max(memory.role_peak[role], point.bytes[role]);
    }
    if (event == events.end()) break;
    point.time_ps = event->time_ps;
  }
  memory.curve = sampler.Take();
  return memory;
}

MemoryTimeline MeasureAll(const TaskGraph& graph, std::span<const std::int64_t> start_ps,
                          std::span<const std::int64_t> end_ps, std::size_t max_points) {
  const std::vector<Life> lives = Lives(graph, start_ps, end_ps);
  struct Change {
    std::vector<Event> events;
    MemoryPoint always;
  };
  std::vector<std::array<Change, kPoolCount>> changes(graph.ranks.size());
  for (BufferId id = 0; id < graph.buffers.size(); ++id) {
    const Buffer& buffer = graph.buffers[id];
    Change& change = changes[buffer.rank][static_cast<std::size_t>(buffer.pool)];
    if (buffer.persistent) {
      Add(change.always, {.bytes = buffer.bytes, .role = buffer.role});
    } else if (!lives[id].IsEmpty()) {
      change.events.push_back({lives[id].begin(), buffer.bytes, buffer.role});
      change.events.push_back({lives[id].end, -buffer.bytes, buffer.role});
    }
  }
  MemoryTimeline timeline(graph.ranks.size());
  for (std::size_t rank = 0; rank < timeline.size(); ++rank) {
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      Change& change = changes[rank][pool];
      timeline[rank][pool] = Measure(std::move(change.events), change.always, max_points);
    }
  }
  return timeline;
}

}  // namespace

Result<MemoryTimeline> MeasureMemory(const TaskGraph& graph, std::span<const std::int64_t> start_ps,
                                     std::span<const std::int64_t> end_ps,
                                     const MemoryTimelineOptions& options) {
  if (start_ps.size() != graph.tasks.size() || end_ps.size() != graph.tasks.size()) {
    Error error;
    error.message = "memory timeline: " + std::to_string(start_ps.size()) + " starts and " +
                    std::to_string(end_ps.size()) + " ends for " +
                    std::to_string(graph.tasks.size()) + " tasks";
    return error;
  }
  // A first, a last and at least one point between.
  const std::size_t max_points =
      options.max_points == 0 ? 0 : std::max<std::size_t>(options.max_points, 3);
  return MeasureAll(graph, start_ps, end_ps, max_points);
}

MemoryTimeline MeasureIssueOrderMemory(const TaskGraph& graph) {
  std::vector<std::int64_t> start(graph.tasks.size()), end(graph.tasks.size());
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      start[id] = id - graph.rank_begin[rank];
      end[id] = start[id] + 1;
    }
  }
  return MeasureAll(graph, start, end, 0);
}

}  // namespace twinstep
