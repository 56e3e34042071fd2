#include "sim/simulate/work_what_if.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "sim/cost/graph_costs.h"
#include "sim/graph/ids.h"
#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"
#include "traces/operator_class.h"

namespace twinstep {
namespace {

template <typename Enum>
std::optional<Enum> Named(const std::string& name, int count) {
  for (int i = 0; i < count; ++i) {
    if (name == Name(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

std::vector<std::string> KnownWords() {
  std::vector<std::string> words;
  for (int i = 0; i < kTaskKindCount; ++i) words.emplace_back(Name(static_cast<TaskKind>(i)));
  for (int i = 0; i < kOperatorClassCount; ++i) {
    words.emplace_back(Name(static_cast<OperatorClass>(i)));
  }
  for (int i = 0; i < kPhaseCount; ++i) words.emplace_back(Name(static_cast<Phase>(i)));
  std::vector<std::string> once;  // Copies are kinds of tasks and of operators.
  for (std::string& word : words) {
    if (std::ranges::count(once, word) == 0) once.push_back(std::move(word));
  }
  return once;
}

// Whether a word means a task. Hidden tasks are the host's time between launches.
bool Means(const std::string& word, const WorkTask& task, OperatorClass operator_class) {
  // Copies between devices are no copies to the host, whatever else their kind says.
  const bool is_peer_copy = operator_class == OperatorClass::kPeerCopy;
  if (const auto kind = Named<TaskKind>(word, kTaskKindCount)) {
    if (task.kind == *kind && !is_peer_copy) return true;
  }
  if (task.hidden) return false;
  if (const auto named = Named<OperatorClass>(word, kOperatorClassCount)) {
    if (operator_class == *named) return true;
  }
  const auto phase = Named<Phase>(word, kPhaseCount);
  return phase && task.phase == *phase;
}

std::vector<OperatorClass> ClassesOf(const WorkGraph& work) {
  std::vector<OperatorClass> classes;
  for (const std::string& name : work.operators) classes.push_back(ClassOfOperator(name));
  return classes;
}

bool IsMatrixWork(OperatorClass operator_class) {
  return operator_class == OperatorClass::kGemm || operator_class == OperatorClass::kConvolution ||
         operator_class == OperatorClass::kAttention;
}

bool LeavesTheNode(const WorkGraph& work, const WorkTask& task, const Cluster& cluster) {
  if (task.rendezvous == kNone) return false;
  return work.rendezvous[task.rendezvous].ranks > cluster.node().gpus();
}

double LinkRate(const Cluster& cluster, bool leaves_the_node) {
  const Node& node = cluster.node();
  if (leaves_the_node && node.nic().bytes_per_s() > 0) {
    return node.nic().bytes_per_s() * static_cast<double>(node.nic().count()) /
           static_cast<double>(std::max<std::int64_t>(1, node.gpus()));
  }
  return node.nvlink().bytes_per_s() > 0 ? node.nvlink().bytes_per_s()
                                         : node.pcie().d2h_bytes_per_s();
}

// What decides how fast the task is on a cluster, in units a second; 0: the cluster does not say.
double RateOf(const WorkGraph& work, const WorkTask& task, OperatorClass operator_class,
              const Cluster& cluster) {
  if (operator_class == OperatorClass::kPeerCopy) return LinkRate(cluster, false);
  switch (task.kind) {
    case TaskKind::kH2D:
      return cluster.node().pcie().h2d_bytes_per_s();
    case TaskKind::kD2H:
      return cluster.node().pcie().d2h_bytes_per_s();
    case TaskKind::kSend:
    case TaskKind::kRecv:
    case TaskKind::kCollective:
      return LinkRate(cluster, LeavesTheNode(work, task, cluster));
    default:
      return IsMatrixWork(operator_class) ? cluster.gpu().bf16_flops_per_s()
                                          : cluster.gpu().memory_bytes_per_s();
  }
}

double Over(double work, double rate) { return rate > 0 ? work / rate : 0; }

double UntimedSeconds(const WorkGraph& work, const WorkTask& task, OperatorClass operator_class,
                      const Cluster& cluster) {
  const auto bytes = static_cast<double>(task.bytes);
  if (task.kind == TaskKind::kCompute || task.kind == TaskKind::kHost) {
    return std::max(
        Over(static_cast<double>(task.flops), cluster.gpu().bf16_flops_per_s()),
        Over(static_cast<double>(task.memory_bytes), cluster.gpu().memory_bytes_per_s()));
  }
  const double rate = RateOf(work, task, operator_class, cluster);
  if (IsCopy(task.kind)) return Over(bytes, rate);
  const bool leaves = LeavesTheNode(work, task, cluster);
  const double latency_s =
      leaves ? cluster.node().nic().latency_s() : cluster.node().nvlink().latency_s();
  if (task.kind != TaskKind::kCollective) return latency_s + Over(bytes, rate);
  const double ranks = task.rendezvous == kNone ? 1 : work.rendezvous[task.rendezvous].ranks;
  if (ranks < 2) return 0;
  const double rounds = operator_class == OperatorClass::kAllReduce ? 2 : 1;
  const double step_s =
      leaves ? cluster.node().nic().step_latency_s() : cluster.node().nvlink().step_latency_s();
  return latency_s + rounds * (ranks - 1) * step_s +
         Over(rounds * (ranks - 1) / ranks * bytes, rate);
}

}  // namespace

Result<std::vector<WorkScale>> ParseWorkScales(const std::vector<std::string>& texts) {
  const std::vector<std::string> known = KnownWords();
  std::vector<WorkScale> scales;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return Error{.message = StrCat("--scale: '", text, "' is not KIND=FACTOR")};
    }
    WorkScale scale{text.substr(0, equals), 0};
    const char* begin = text.data() + equals + 1;
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(begin, end, scale.factor);
    if (code != std::errc() || stop != end || !(scale.factor >= 0 && scale.factor <= 1e6)) {
      return Error{.message =
                       StrCat("--scale: the factor of '", text, "' is no number from 0 to 1e6")};
    }
    if (std::find(known.begin(), known.end(), scale.what) == known.end()) {
      return Error{.message = StrCat("--scale: '", scale.what,
                                     "' is neither a kind of task or operator nor a phase: ",
                                     Joined(known), DidYouMean(scale.what, known))};
    }
    scales.push_back(scale);
  }
  return scales;
}

Result<std::vector<double>> FactorsOf(const WorkGraph& work, const std::vector<WorkScale>& scales,
                                      const ClusterChange* change,
                                      std::vector<std::int64_t>* touched) {
  const std::vector<OperatorClass> classes = ClassesOf(work);
  std::vector<double> factors(work.tasks.size(), 1);
  touched->assign(scales.size(), 0);
  for (std::size_t i = 0; i < work.tasks.size(); ++i) {
    const WorkTask& task = work.tasks[i];
    const OperatorClass operator_class = classes[task.op];
    for (std::size_t k = 0; k < scales.size(); ++k) {
      if (!Means(scales[k].what, task, operator_class)) continue;
      factors[i] *= scales[k].factor;
      ++(*touched)[k];
    }
    if (change == nullptr || task.kind == TaskKind::kHost) continue;
    const double traced = RateOf(work, task, operator_class, change->traced);
    const double replayed = RateOf(work, task, operator_class, change->replayed);
    if (!(traced > 0) || !(replayed > 0)) {
      return Error{.message =
                       StrCat("cluster ", (traced > 0 ? change->replayed : change->traced).name(),
                              " does not say how fast ", work.operators[task.op], " (",
                              Name(task.kind), ") is")};
    }
    factors[i] *= traced / replayed;
  }
  return factors;
}

std::int64_t PriceUntimed(const Cluster& cluster, WorkGraph* work) {
  const std::vector<OperatorClass> classes = ClassesOf(*work);
  std::int64_t priced = 0;
  for (WorkTask& task : work->tasks) {
    if (task.duration_ps > 0 || task.hidden) continue;
    const double seconds = UntimedSeconds(*work, task, classes[task.op], cluster);
    // A week is longer than any task.
    if (!(seconds > 0) || seconds > 7 * 86400.0) continue;
    task.duration_ps = ToPicoseconds(seconds);
    ++priced;
  }
  return priced;
}

}  // namespace twinstep
