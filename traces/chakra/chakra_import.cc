#include "traces/chakra/chakra_import.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/graph/ids.h"
#include "sim/str_cat.h"
#include "traces/chakra/chakra_attributes.h"
#include "traces/valid_utf8.h"

namespace twinstep {
namespace {

constexpr std::int64_t kPicosecondsPerMicrosecond = 1'000'000;
// About a month: sums of picoseconds stay in 64 bits.
constexpr std::uint64_t kLatest_us = INT64_MAX / kPicosecondsPerMicrosecond / 4;

void Find(const ChakraFile& file, const chakra::Node& node, LintFinding* finding) {
  constexpr std::size_t kShown = 3;
  if (finding->nodes.size() < kShown) {
    finding->nodes.push_back(StrCat(node.name().empty() ? "node" : node.name(), " (", file.path,
                                    ", id ", node.id(), ")"));
  }
  ++finding->count;
}

// Texts numbered by first appearance.
class Table {
 public:
  explicit Table(std::vector<std::string>* texts) : texts_(texts) {}
  std::uint32_t operator()(const std::string& text) {
    const auto [at, is_new] = index_.try_emplace(text, static_cast<std::uint32_t>(texts_->size()));
    if (is_new) texts_->push_back(text);
    return at->second;
  }

 private:
  std::vector<std::string>* texts_;
  std::unordered_map<std::string, std::uint32_t> index_;
};

TaskKind KindOf(const chakra::Node& node) {
  switch (node.type()) {
    case chakra::MEM_LOAD_NODE:
      return TaskKind::kH2D;
    case chakra::MEM_STORE_NODE:
      return TaskKind::kD2H;
    case chakra::COMM_SEND_NODE:
      return TaskKind::kSend;
    case chakra::COMM_RECV_NODE:
      return TaskKind::kRecv;
    case chakra::COMM_COLL_NODE:
      return TaskKind::kCollective;
    case chakra::COMP_NODE:
      // Without the attribute it is what runs on the device.
      return IntegerAttribute(node, "is_cpu_op").value_or(0) != 0 ? TaskKind::kHost
                                                                  : TaskKind::kCompute;
    default:
      return TaskKind::kHost;
  }
}

const char* CollectiveName(std::int64_t type) {
  static constexpr const char* kNames[] = {
      "all_reduce", "reduce",     "all_gather",     "gather",         "scatter",
      "broadcast",  "all_to_all", "reduce_scatter", "reduce_scatter", "barrier"};
  return type >= 0 && type < static_cast<std::int64_t>(std::size(kNames)) ? kNames[type]
                                                                          : "collective";
}

class Importer {
 public:
  explicit Importer(std::span<const ChakraFile> files)
      : files_(files), lane_(&out_.work.lanes), operator_(&out_.work.operators) {}

  Result<ChakraImport> Run() {
    if (const Status numbered = NumberRanks(); !numbered.ok()) return numbered.error();
    for (std::uint32_t rank = 0; rank < files_.size(); ++rank) {
      if (const Status added = AddFile(rank); !added.ok()) return added.error();
    }
    MatchMessages();
    MatchCollectives();
    AddTimes();
    if (has_times_) {
      QueueByTime(&out_.work);
      ExplainStarts(&out_.work);
    } else {
      QueueByLane(&out_.work);
    }
    return std::move(out_);
  }

 private:
  WorkGraph& work() { return out_.work; }

  Status NumberRanks() {
    std::set<std::int64_t> numbers;
    for (std::uint32_t i = 0; i < files_.size(); ++i) {
      const std::int64_t number = files_[i].rank >= 0 ? files_[i].rank : i;
      if (!numbers.insert(number).second) {
        return Error{.message = StrCat(files_[i].path, ": is a second file of rank ", number)};
      }
      work().ranks.push_back(static_cast<std::uint32_t>(number));
    }
    work().name = ValidUtf8(std::filesystem::path(files_[0].path).filename().string());
    if (files_.size() > 1) work().name += StrCat(" and ", files_.size() - 1, " more");
    return Unit{};
  }

  // The nodes in an order that dependencies allow, earliest first, then by position.
  std::vector<std::uint32_t> Order(const ChakraFile& file,
                                   std::vector<std::vector<std::uint32_t>>* successors) {
    const auto count = static_cast<std::uint32_t>(file.nodes.size());
    std::unordered_map<std::uint64_t, std::uint32_t> by_id;
    std::vector<bool> left_out(count, false);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (by_id.try_emplace(file.nodes[i].id(), i).second) continue;
      left_out[i] = true;
      Find(file, file.nodes[i], &out_.lint.repeated_ids);
    }
    successors->assign(count, {});
    std::vector<std::uint32_t> waits(count, 0);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (left_out[i]) continue;
      const chakra::Node& node = file.nodes[i];
      for (const auto* dependencies : {&node.data_deps(), &node.ctrl_deps()}) {
        for (const std::uint64_t id : *dependencies) {
          const auto at = by_id.find(id);
          if (at == by_id.end()) {
            Find(file, node, &out_.lint.missing_predecessors);
            continue;
          }
          if (at->second == i) {
            Find(file, node, &out_.lint.in_cycles);
            continue;
          }
          (*successors)[at->second].push_back(i);
          ++waits[i];
        }
      }
    }
    using Entry = std::pair<std::uint64_t, std::uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto push = [&](std::uint32_t i) { ready.push({file.nodes[i].start_time_micros(), i}); };
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!left_out[i] && waits[i] == 0) push(i);
    }
    std::vector<std::uint32_t> order;
    std::vector<bool> done = left_out;
    std::uint32_t first_open = 0;
    // Looking for a cycle takes a look at all nodes: after so many the rest goes on at once.
    constexpr int kMostCycles = 100;
    for (int cycles = 0;; ++cycles) {
      while (!ready.empty()) {
        const std::uint32_t i = ready.top().second;
        ready.pop();
        if (done[i]) continue;
        done[i] = true;
        order.push_back(i);
        for (const std::uint32_t next : (*successors)[i]) {
          if (waits[next] > 0 && --waits[next] == 0) push(next);
        }
      }
      while (first_open < count && done[first_open]) ++first_open;
      if (first_open == count) break;
      // What is left waits in a circle or behind one: the first node of a circle goes on anyway.
      if (cycles < kMostCycles) {
        BreakCycle(file, *successors, done, &waits, push);
        continue;
      }
      for (std::uint32_t i = first_open; i < count; ++i) {
        if (done[i]) continue;
        Find(file, file.nodes[i], &out_.lint.in_cycles);
        waits[i] = 0;
        push(i);
      }
    }
    return order;
  }

  // Finds a cycle among what is left, names its nodes and lets the first of them begin.
  template <typename Push>
  void BreakCycle(const ChakraFile& file, const std::vector<std::vector<std::uint32_t>>& successors,
                  const std::vector<bool>& done, std::vector<std::uint32_t>* waits, Push push) {
    // Each open node has an open predecessor: going back long enough ends in a cycle.
    const auto count = static_cast<std::uint32_t>(file.nodes.size());
    std::vector<std::uint32_t> predecessor(count, kNone);
    std::uint32_t node = kNone;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (done[i]) continue;
      for (const std::uint32_t next : successors[i]) {
        if (!done[next]) predecessor[next] = i;
      }
      node = i;
    }
    std::vector<bool> seen(count, false);
    while (!seen[node]) {
      seen[node] = true;
      node = predecessor[node];
    }
    const std::uint32_t first = node;
    do {
      Find(file, file.nodes[node], &out_.lint.in_cycles);
      node = predecessor[node];
    } while (node != first);
    (*waits)[first] = 0;
    push(first);
  }

  std::string LaneOf(const chakra::Node& node, TaskKind kind) {
    if (const auto own = TextAttribute(node, kLaneAttribute)) return *own;
    switch (kind) {
      case TaskKind::kHost:
        return "host";
      case TaskKind::kH2D:
        return "load";
      case TaskKind::kD2H:
        return "store";
      case TaskKind::kSend:
        return "send";
      case TaskKind::kRecv:
        return "receive";
      case TaskKind::kCollective:
        return StrCat("group ", TextAttribute(node, "pg_name").value_or("all"));
      default:
        return "compute";
    }
  }

  Status AddFile(std::uint32_t rank) {
    const ChakraFile& file = files_[rank];
    std::vector<std::vector<std::uint32_t>> successors;
    const std::vector<std::uint32_t> order = Order(file, &successors);
    // Where dependencies on a node begin, and where those of it end.
    std::vector<std::uint32_t> task_of(file.nodes.size(), kNone), first_task_of(task_of);
    for (const std::uint32_t i : order) {
      const chakra::Node& node = file.nodes[i];
      if (node.start_time_micros() > kLatest_us || node.duration_micros() > kLatest_us) {
        return Error{.message = StrCat(file.path, ": node ", node.id(), " (", node.name(),
                                       ") has a time beyond a month: it begins at ",
                                       node.start_time_micros(), " us and lasts ",
                                       node.duration_micros(), " us")};
      }
      first_task_of[i] = static_cast<std::uint32_t>(work().tasks.size());
      task_of[i] = AddNode(rank, node);
    }
    for (std::uint32_t i = 0; i < successors.size(); ++i) {
      for (const std::uint32_t next : successors[i]) {
        // Against the order only where a cycle was broken.
        if (task_of[i] != kNone && task_of[next] != kNone && task_of[i] < first_task_of[next]) {
          work().edges.emplace_back(task_of[i], first_task_of[next]);
        }
      }
    }
    return Unit{};
  }

  // The task that is the node.
  std::uint32_t AddNode(std::uint32_t rank, const chakra::Node& node) {
    const ChakraFile& file = files_[rank];
    WorkTask task;
    task.rank = rank;
    task.kind = KindOf(node);
    task.lane = lane_(LaneOf(node, task.kind));
    const auto attribute = [&node](const char* name) {
      return std::max<std::int64_t>(0, IntegerAttribute(node, name).value_or(0));
    };
    task.bytes = attribute("comm_size");
    if (IsCopy(task.kind)) {
      task.bytes = attribute("tensor_size");
    }
    if (task.kind == TaskKind::kCompute || task.kind == TaskKind::kHost) {
      task.flops = attribute("num_ops");
      task.memory_bytes = attribute("tensor_size");
    }
    task.duration_ps =
        static_cast<std::int64_t>(node.duration_micros()) * kPicosecondsPerMicrosecond;
    task.start_ps =
        static_cast<std::int64_t>(node.start_time_micros()) * kPicosecondsPerMicrosecond;
    // Our own files are exact.
    const auto start = IntegerAttribute(node, kStartAttribute);
    const auto end = IntegerAttribute(node, kEndAttribute);
    if (start && end && *start >= 0 && *end >= *start &&
        *end <= static_cast<std::int64_t>(kLatest_us) * kPicosecondsPerMicrosecond) {
      task.start_ps = *start;
      task.duration_ps = *end - *start;
    }
    has_times_ = has_times_ || task.start_ps > 0 || start.has_value();
    std::string name = node.name();
    if (const auto own = TextAttribute(node, kOperatorAttribute)) {
      name = *own;
    } else if (task.kind == TaskKind::kCollective) {
      // The name of a node may be anything; the kind of the collective is what tells it.
      const std::int64_t type = IntegerAttribute(node, "comm_type").value_or(-1);
      name = StrCat("nccl ", CollectiveName(type));
    } else if (task.kind == TaskKind::kSend || task.kind == TaskKind::kRecv) {
      name = Name(task.kind);
    }
    task.op = operator_(name.empty() ? "node" : name);
    if (const auto own = TextAttribute(node, kPhaseAttribute)) {
      for (int i = 0; i < kPhaseCount; ++i) {
        if (*own == Name(static_cast<Phase>(i))) task.phase = static_cast<Phase>(i);
      }
    }
    if (node.type() == chakra::INVALID_NODE || node.type() > chakra::CHECKPOINT_NODE) {
      Find(file, node, &out_.lint.invalid_nodes);
    } else if (node.type() != chakra::METADATA_NODE && task.duration_ps == 0) {
      Find(file, node, &out_.lint.zero_durations);
    }
    // In our files a send waits for its receive; with others it is done when its bytes are.
    if (task.kind == TaskKind::kSend && FindAttribute(node, kKindAttribute) == nullptr) {
      return AddBufferedSend(node, task);
    }
    return Add(node, task);
  }

  std::uint32_t Add(const chakra::Node& node, const WorkTask& task) {
    nodes_.push_back(&node);
    meets_.push_back(task.kind == TaskKind::kSend || task.kind == TaskKind::kRecv);
    work().tasks.push_back(task);
    return static_cast<std::uint32_t>(work().tasks.size() - 1);
  }

  // The receive may begin when the send has begun, and the send does not wait for it: a second task
  // in a lane of its own meets the receive.
  std::uint32_t AddBufferedSend(const chakra::Node& node, const WorkTask& send) {
    WorkTask begin = send;
    begin.kind = TaskKind::kHost;
    begin.hidden = true;
    begin.duration_ps = 0;
    const std::uint32_t begin_id = Add(node, begin);
    const std::uint32_t id = Add(node, send);
    meets_.back() = false;
    WorkTask delivery = begin;
    delivery.kind = TaskKind::kSend;
    delivery.lane = lane_(StrCat("to ", IntegerAttribute(node, "comm_dst").value_or(-1)));
    const std::uint32_t delivery_id = Add(node, delivery);
    work().edges.emplace_back(begin_id, id);
    work().edges.emplace_back(begin_id, delivery_id);
    return id;
  }

  const ChakraFile& FileOf(std::uint32_t task) const { return files_[out_.work.tasks[task].rank]; }

  void MatchMessages() {
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // Source, destination, tag.
    std::map<Key, std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>>> by_key;
    for (std::uint32_t i = 0; i < work().tasks.size(); ++i) {
      const WorkTask& task = work().tasks[i];
      if (!meets_[i]) continue;
      const std::int64_t own = work().ranks[task.rank];
      const std::int64_t tag = IntegerAttribute(*nodes_[i], "comm_tag").value_or(0);
      if (task.kind == TaskKind::kSend) {
        const std::int64_t to = IntegerAttribute(*nodes_[i], "comm_dst").value_or(-1);
        by_key[{own, to, tag}].first.push_back(i);
      } else if (task.kind == TaskKind::kRecv) {
        const std::int64_t from = IntegerAttribute(*nodes_[i], "comm_src").value_or(-1);
        by_key[{from, own, tag}].second.push_back(i);
      }
    }
    for (const auto& [key, messages] : by_key) {
      const auto& [sends, receives] = messages;
      const std::size_t pairs = std::min(sends.size(), receives.size());
      for (std::size_t k = 0; k < pairs; ++k) Join({sends[k], receives[k]});
      for (const auto* rest : {&sends, &receives}) {
        for (std::size_t k = pairs; k < rest->size(); ++k) {
          Find(FileOf((*rest)[k]), *nodes_[(*rest)[k]], &out_.lint.unmatched_messages);
        }
      }
    }
  }

  void MatchCollectives() {
    // By process group, of each rank its collectives in order.
    std::map<std::string, std::map<std::uint32_t, std::vector<std::uint32_t>>> by_group;
    for (std::uint32_t i = 0; i < work().tasks.size(); ++i) {
      if (work().tasks[i].kind != TaskKind::kCollective) continue;
      const std::string group = TextAttribute(*nodes_[i], "pg_name").value_or("");
      by_group[group][work().tasks[i].rank].push_back(i);
    }
    for (const auto& [group, ranks] : by_group) {
      std::size_t most = 0;
      for (const auto& [rank, tasks] : ranks) most = std::max(most, tasks.size());
      for (std::size_t k = 0; k < most; ++k) {
        std::vector<std::uint32_t> members;
        for (const auto& [rank, tasks] : ranks) {
          if (k < tasks.size()) members.push_back(tasks[k]);
        }
        // Without a group they are of all ranks.
        if (members.size() < (group.empty() ? files_.size() : ranks.size())) {
          for (const std::uint32_t member : members) {
            Find(FileOf(member), *nodes_[member], &out_.lint.unmatched_collectives);
          }
        }
        Join(members);
      }
    }
  }

  void Join(const std::vector<std::uint32_t>& members) {
    for (const std::uint32_t member : members) {
      work().tasks[member].rendezvous = static_cast<std::uint32_t>(work().rendezvous.size());
    }
    const auto count = static_cast<std::uint32_t>(members.size());
    work().rendezvous.push_back({count, count});
  }

  // Times from the first start; without any the trace has none.
  void AddTimes() {
    if (!has_times_) {
      for (WorkTask& task : work().tasks) task.start_ps = -1;
      return;
    }
    std::int64_t first_ps = INT64_MAX, last_ps = 0;
    for (const WorkTask& task : work().tasks) first_ps = std::min(first_ps, task.start_ps);
    for (WorkTask& task : work().tasks) {
      task.start_ps -= first_ps;
      last_ps = std::max(last_ps, task.start_ps + task.duration_ps);
    }
    work().iteration_ps = last_ps;
  }

  std::span<const ChakraFile> files_;
  ChakraImport out_;
  Table lane_, operator_;
  bool has_times_ = false;
  // By task.
  std::vector<const chakra::Node*> nodes_;
  std::vector<bool> meets_;  // A message's end that waits for the other.
};

}  // namespace

bool ChakraLint::clean() const {
  for (const LintFinding* finding :
       {&missing_predecessors, &in_cycles, &unmatched_messages, &unmatched_collectives,
        &zero_durations, &repeated_ids, &invalid_nodes}) {
    if (finding->count > 0) return false;
  }
  return true;
}

std::vector<std::string> LintText(const ChakraLint& lint) {
  std::vector<std::string> lines;
  for (const auto& [what, finding] :
       {std::pair{"missing predecessors", &lint.missing_predecessors},
        std::pair{"nodes in cycles", &lint.in_cycles},
        std::pair{"unmatched sends and receives", &lint.unmatched_messages},
        std::pair{"collectives that not all ranks have", &lint.unmatched_collectives},
        std::pair{"zero durations", &lint.zero_durations},
        std::pair{"nodes of an id that another has", &lint.repeated_ids},
        std::pair{"nodes of no known type", &lint.invalid_nodes}}) {
    if (finding->count == 0) continue;
    std::string line = StrCat(finding->count, " ", what, ": ");
    for (std::size_t i = 0; i < finding->nodes.size(); ++i) {
      line += StrCat(i == 0 ? "" : ", ", finding->nodes[i]);
    }
    if (finding->count > static_cast<std::int64_t>(finding->nodes.size())) line += " ...";
    lines.push_back(std::move(line));
  }
  return lines;
}

Result<ChakraImport> ImportChakra(std::span<const ChakraFile> files) {
  return Importer(files).Run();
}

}  // namespace twinstep
