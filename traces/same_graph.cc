#include "traces/same_graph.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "sim/graph/ids.h"
#include "sim/str_cat.h"
#include "traces/check_trace.h"
#include "traces/trace_title.h"

namespace twinstep {
namespace {

constexpr int kNoEvent = -1;

// "trace A (simulated, tiny-llama)".
std::string Title(const char* letter, const Trace& trace) {
  std::string title = StrCat("trace ", letter);
  std::string what = OriginName(trace);
  if (!trace.name().empty()) what += (what.empty() ? "" : ", ") + trace.name();
  return what.empty() ? title : StrCat(title, " (", what, ")");
}

Error NotUsable(const std::string& title, const std::string& what) {
  return Error{.message = StrCat(title, ": ", what)};
}

Error NotTheSame(const std::string& what) {
  return Error{.message = StrCat("the traces are not of the same graph: ", what)};
}

// By task id, the event; an Error where ids are not 0, 1, 2 ... once each or times cannot be.
Result<std::vector<int>> EventOfTask(const Trace& trace, const std::string& title) {
  if (const std::string bad = TraceProblem(trace); !bad.empty()) return NotUsable(title, bad);
  std::vector<int> event_of_task(static_cast<std::size_t>(trace.task_size()), kNoEvent);
  for (int i = 0; i < trace.task_size(); ++i) {
    const std::uint32_t task = trace.task(i);
    if (task >= event_of_task.size()) {
      return NotUsable(title, StrCat("has ", trace.task_size(), " tasks, and one of id ", task));
    }
    if (event_of_task[task] != kNoEvent) {
      return NotUsable(title, StrCat("task ", task, " stands in it twice"));
    }
    event_of_task[task] = i;
    if (trace.start_ps(i) < 0 || trace.end_ps(i) < trace.start_ps(i) ||
        trace.end_ps(i) > trace.iteration_ps()) {
      return NotUsable(
          title, StrCat("task ", task, " runs from ", trace.start_ps(i), " to ", trace.end_ps(i),
                        " ps, outside of the iteration's ", trace.iteration_ps(), " ps"));
    }
  }
  return event_of_task;
}

using NameTable = google::protobuf::RepeatedPtrField<std::string>;

// By index into A's table, the index of the same name in B's; past its end where it has none.
std::vector<std::uint32_t> SameName(const NameTable& a, const NameTable& b) {
  std::vector<std::uint32_t> same;
  for (const std::string& name : a) {
    same.push_back(static_cast<std::uint32_t>(std::find(b.begin(), b.end(), name) - b.begin()));
  }
  return same;
}

// Whether two events are of the same task, without a look at their names' letters.
class SameTask {
 public:
  SameTask(const Trace& a, const Trace& b)
      : a_(a),
        b_(b),
        lanes_(SameName(a.lanes(), b.lanes())),
        kinds_(SameName(a.kinds(), b.kinds())),
        phases_(SameName(a.phases(), b.phases())),
        operators_(SameName(a.operators(), b.operators())) {}

  bool operator()(int i, int j) const {
    return a_.ranks(static_cast<int>(a_.rank(i))).global_rank() ==
               b_.ranks(static_cast<int>(b_.rank(j))).global_rank() &&
           lanes_[a_.lane(i)] == b_.lane(j) && kinds_[a_.kind(i)] == b_.kind(j) &&
           phases_[a_.phase(i)] == b_.phase(j) && operators_[a_.op(i)] == b_.op(j) &&
           a_.micro_batch(i) == b_.micro_batch(j) && a_.stage(i) == b_.stage(j) &&
           a_.block(i) == b_.block(j) && a_.chunk(i) == b_.chunk(j) && a_.bytes(i) == b_.bytes(j);
  }

 private:
  const Trace& a_;
  const Trace& b_;
  const std::vector<std::uint32_t> lanes_, kinds_, phases_, operators_;
};

std::int64_t RanksStoodFor(const Trace& trace) {
  std::int64_t ranks = 0;
  for (const Trace::Rank& rank : trace.ranks()) ranks += std::max(rank.class_size(), 1u);
  return ranks;
}

// Where the traces differ by how many equal ranks one stands for: by which, and what helps.
std::string Folding(const std::string& title_a, const Trace& a, const std::string& title_b,
                    const Trace& b) {
  if (a.ranks_size() == b.ranks_size() || RanksStoodFor(a) != RanksStoodFor(b)) return "";
  const bool a_is_folded = a.ranks_size() < b.ranks_size();
  const Trace& folded = a_is_folded ? a : b;
  const Trace& whole = a_is_folded ? b : a;
  // Ranks that stand for others in both are those of two plans.
  if (whole.ranks_size() != RanksStoodFor(whole)) return "";
  return StrCat(a_is_folded ? title_b : title_a, " has ", whole.ranks_size(), " ranks, of which ",
                folded.ranks_size(), " stand for all in ", a_is_folded ? title_a : title_b,
                ": simulate it with --all-ranks");
}

// In what two events differ first, as text; empty where they do not.
std::string Difference(const Trace& a, int i, const Trace& b, int j) {
  const std::pair<std::string, std::string> names[] = {
      {StrCat("rank ", a.ranks(static_cast<int>(a.rank(i))).global_rank()),
       StrCat("rank ", b.ranks(static_cast<int>(b.rank(j))).global_rank())},
      {StrCat("lane ", a.lanes(static_cast<int>(a.lane(i)))),
       StrCat("lane ", b.lanes(static_cast<int>(b.lane(j))))},
      {StrCat("kind ", a.kinds(static_cast<int>(a.kind(i)))),
       StrCat("kind ", b.kinds(static_cast<int>(b.kind(j))))},
      {StrCat("phase ", a.phases(static_cast<int>(a.phase(i)))),
       StrCat("phase ", b.phases(static_cast<int>(b.phase(j))))},
      {StrCat("operator ", a.operators(static_cast<int>(a.op(i)))),
       StrCat("operator ", b.operators(static_cast<int>(b.op(j))))}};
  for (const auto& [in_a, in_b] : names) {
    if (in_a != in_b) return StrCat(in_a, " in A, ", in_b, " in B");
  }
  const std::tuple<const char*, std::int64_t, std::int64_t> numbers[] = {
      {"micro-batch", a.micro_batch(i), b.micro_batch(j)},
      {"stage", a.stage(i), b.stage(j)},
      {"block", a.block(i), b.block(j)},
      {"chunk", a.chunk(i), b.chunk(j)},
      {"bytes", a.bytes(i), b.bytes(j)}};
  for (const auto& [name, in_a, in_b] : numbers) {
    if (in_a != in_b) return StrCat(name, " ", in_a, " in A, ", in_b, " in B");
  }
  return "";
}

}  // namespace

std::string EventName(const Trace& trace, int event) {
  std::string name = StrCat("r", trace.ranks(static_cast<int>(trace.rank(event))).global_rank(),
                            " ", trace.lanes(static_cast<int>(trace.lane(event))), " ",
                            trace.operators(static_cast<int>(trace.op(event))));
  const auto tag = [&name](const char* label, std::uint32_t value) {
    if (value != kNoTag) name += StrCat(" ", label, value);
  };
  tag("mb", trace.micro_batch(event));
  tag("stage", trace.stage(event));
  tag("block", trace.block(event));
  tag("chunk", trace.chunk(event));
  return name;
}

Result<TaskPairs> MatchTasks(const Trace& a, const Trace& b) {
  const std::string title_a = Title("A", a), title_b = Title("B", b);
  Result<std::vector<int>> in_a = EventOfTask(a, title_a);
  if (!in_a.ok()) return in_a.error();
  Result<std::vector<int>> in_b = EventOfTask(b, title_b);
  if (!in_b.ok()) return in_b.error();
  TaskPairs pairs{std::move(in_a).value(), std::move(in_b).value()};
  if (const std::string folded = Folding(title_a, a, title_b, b); !folded.empty()) {
    return NotTheSame(folded);
  }
  const std::size_t both = std::min(pairs.a.size(), pairs.b.size());
  std::string sizes;
  if (pairs.a.size() != pairs.b.size()) {
    sizes = StrCat(title_a, " has ", pairs.a.size(), " tasks, ", title_b, " has ", pairs.b.size());
  } else if (a.ranks_size() != b.ranks_size()) {
    sizes = StrCat(title_a, " has ", a.ranks_size(), " ranks, ", title_b, " has ", b.ranks_size());
  }
  const SameTask same_task(a, b);
  for (std::size_t task = 0; task < both; ++task) {
    if (same_task(pairs.a[task], pairs.b[task])) continue;
    const std::string difference = Difference(a, pairs.a[task], b, pairs.b[task]);
    return NotTheSame(StrCat(sizes, sizes.empty() ? "" : "; ", "task ", task, " (",
                             EventName(a, pairs.a[task]), ") is of ", difference));
  }
  if (!sizes.empty()) return NotTheSame(sizes);
  return pairs;
}

}  // namespace twinstep
