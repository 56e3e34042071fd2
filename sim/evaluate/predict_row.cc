#include "sim/evaluate/predict_row.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "hw_specs/find_cluster.h"
#include "hw_specs/frameworks/find_framework.h"
#include "hw_specs/validate_cluster.h"
#include "model_zoo/find_model.h"
#include "model_zoo/validate_model.h"
#include "sim/cost/collective_cost.h"
#include "sim/cost/framework_costs.h"
#include "sim/cost/operator_cost.h"
#include "sim/engine/engine.h"
#include "sim/estimate/mfu.h"
#include "sim/graph/find_op.h"
#include "sim/graph/memory_timeline.h"
#include "sim/lower/lower.h"
#include "sim/plan/node_layout.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr int kFp32Gradient = 4;

double Members(const CollectiveRow& row) {
  return static_cast<double>(row.gpus_a_node() * std::max<std::int64_t>(1, row.nodes()));
}

// Bus bandwidth is this times bytes over time (nccl-tests doc/PERFORMANCE.md).
double BusFactor(OpCode op, double members) {
  if (op == OpCode::kSend) return 1;
  return (op == OpCode::kAllReduce ? 2 : 1) * (members - 1) / members;
}

Status PrepareIteration(const Suite& suite, PreparedRow* prepared) {
  const Row& row = *prepared->row;
  Result<Model> model = FindModel(row.model());
  if (!model.ok()) return model.error();
  prepared->model = std::move(model).value();
  for (const std::string& set : row.set()) {
    const Result<FieldValues> field = ParseFieldValues(set);
    if (!field.ok()) return field.error();
    const Status done =
        SetField(&prepared->model, field.value().path, field.value().values.front());
    if (!done.ok()) return done;
  }
  if (const Status valid = ValidateModel(prepared->model); !valid.ok()) return valid;
  Plan plan = suite.plan();
  plan.MergeFrom(row.plan());
  Result<ResolvedPlan> resolved =
      ResolvePlan(prepared->model, prepared->cluster, plan, row.gpus(), {});
  if (!resolved.ok()) return resolved.error();
  prepared->plan = std::move(resolved).value();

  const ResolvedPlan& p = prepared->plan;
  const double tokens = static_cast<double>(p.global_batch * p.sequence_length);
  const auto gpus = static_cast<double>(p.gpus);
  Quantities& measured = prepared->measured;
  measured[TIME] = row.tokens_per_s() > 0 ? tokens / row.tokens_per_s() : row.iteration_s();
  measured[FORWARD] = row.forward_s();
  measured[BACKWARD] = row.backward_s();
  measured[OPTIMIZER] = row.optimizer_s();
  measured[MEMORY] = std::max(row.allocated_bytes(), row.device_bytes());
  const double passes = p.recompute == RECOMPUTE_FULL ? 4.0 / 3 : 1;
  prepared->work_at_peak_s = passes * tokens *
                             ModelFlopsPerToken(prepared->model, p.sequence_length) /
                             (gpus * prepared->cluster.gpu().bf16_flops_per_s());
  prepared->time_unit = tokens / gpus;
  return Unit{};
}

Status PrepareKernel(PreparedRow* prepared) {
  const Row& row = *prepared->row;
  const std::string& name = row.has_operation() ? row.operation().op() : row.collective().op();
  const std::optional<OpCode> op = FindOp(name);
  if (!op) return Error{.message = StrCat("no operation '", name, "'")};
  OpShape& shape = prepared->shape;
  shape.op = *op;
  if (row.has_operation()) {
    for (int i = 0; i < row.operation().dims_size(); ++i) {
      shape.dims[static_cast<std::size_t>(i)] = row.operation().dims(i);
    }
    const double flops = Flops(shape);
    if (row.flops_per_s() > 0 && flops == 0) {
      return Error{.message = StrCat(name, " has no flops")};
    }
    prepared->measured[TIME] = row.flops_per_s() > 0 ? flops / row.flops_per_s() : row.seconds();
    prepared->work_at_peak_s =
        flops > 0 ? flops / prepared->cluster.gpu().bf16_flops_per_s()
                  : MemoryBytes(shape) / prepared->cluster.gpu().memory_bytes_per_s();
    return Unit{};
  }
  const auto bytes = static_cast<double>(row.collective().bytes());
  const double wire = bytes * BusFactor(shape.op, Members(row.collective()));
  prepared->measured[TIME] =
      row.bus_bytes_per_s() > 0 ? wire / row.bus_bytes_per_s() : row.seconds();
  prepared->work_at_peak_s = wire / PeerBytesPerSecond(prepared->cluster);
  return Unit{};
}

double Seconds(Picoseconds ps) { return static_cast<double>(ps) / kPicosecondsPerSecond; }

// Forward, backward and what follows on the first rank, each from where the one before ends.
void AddPhases(const TaskGraph& graph, const Replay& replay, Quantities* predicted) {
  Picoseconds forward_end = 0, backward_end = 0, forward_begin = replay.makespan_ps;
  for (TaskId id = graph.rank_begin[0]; id < graph.rank_begin[1]; ++id) {
    const Phase phase = graph.tasks[id].phase;
    if (phase == Phase::kForward) {
      forward_begin = std::min(forward_begin, replay.start_ps[id]);
      forward_end = std::max(forward_end, replay.end_ps[id]);
    } else if (phase == Phase::kBackward) {
      backward_end = std::max(backward_end, replay.end_ps[id]);
    }
  }
  (*predicted)[FORWARD] = Seconds(forward_end - forward_begin);
  (*predicted)[BACKWARD] = Seconds(backward_end - forward_end);
  (*predicted)[OPTIMIZER] = Seconds(replay.makespan_ps - backward_end);
}

// Most bytes alive at once on the fullest GPU, as the peak of an allocator counts them.
Result<double> PeakGpuBytes(const TaskGraph& graph, const Replay& replay) {
  const Result<MemoryTimeline> memory =
      MeasureMemory(graph, replay.start_ps, replay.end_ps, {.max_points = 0});
  if (!memory.ok()) return memory.error();
  std::int64_t peak = 0;
  for (const auto& pools : memory.value()) {
    peak = std::max(peak, pools[static_cast<std::size_t>(Pool::kGpu)].peak_bytes);
  }
  return static_cast<double>(peak);
}

Result<Quantities> PredictIteration(const PreparedRow& row, const TaskGraph& graph) {
  Result<GraphCosts> costs =
      ComputeFrameworkCosts(graph, row.model, row.cluster, nullptr, &row.framework);
  if (!costs.ok()) return costs.error();
  Result<Replay> replay = MakeFastEngine()->Run(graph, costs.value());
  if (!replay.ok()) return replay.error();
  Quantities predicted;
  predicted[TIME] = Seconds(replay.value().makespan_ps);
  AddPhases(graph, replay.value(), &predicted);
  if (row.measured.Of(MEMORY) > 0) {
    const Result<double> peak = PeakGpuBytes(graph, replay.value());
    if (!peak.ok()) return peak.error();
    predicted[MEMORY] = peak.value() + static_cast<double>(row.framework.buffer_bytes());
    if (row.row->device_bytes() > 0) {
      predicted[MEMORY] += static_cast<double>(row.cluster.gpu().runtime_overhead_bytes());
    }
  }
  return predicted;
}

double KernelSeconds(const PreparedRow& row) {
  const CollectiveRow& collective = row.row->collective();
  const auto bytes = static_cast<double>(collective.bytes());
  if (row.row->has_operation()) {
    Cluster benchmark = row.cluster;  // Too short to reach limits of power.
    benchmark.mutable_gpu()->clear_sustained_fraction();
    return OperatorRoofline(benchmark, kFp32Gradient).Of(row.shape).seconds;
  }
  if (row.row->has_copy()) {
    return CopyCost(row.cluster, static_cast<double>(row.row->copy().bytes()),
                    row.row->copy().to_gpu())
        .Seconds();
  }
  const std::int64_t nodes = std::max<std::int64_t>(1, collective.nodes());
  if (row.shape.op == OpCode::kSend) return SendCost(row.cluster, bytes, nodes == 1).Seconds();
  return CollectiveCost(row.cluster, row.shape.op, bytes,
                        {.members = collective.gpus_a_node() * nodes,
                         .nodes = nodes,
                         .own_node_members = collective.gpus_a_node(),
                         .largest_node_members = collective.gpus_a_node(),
                         // They are neighbours.
                         .is_spread_over_switches = NodeLayout(row.cluster).gpus_per_uplink() == 1})
      .Seconds();
}

Result<Quantities> PredictKernel(const PreparedRow& row) {
  Quantities predicted;
  predicted[TIME] = KernelSeconds(row);
  if (!std::isfinite(predicted.Of(TIME))) {
    return Error{.message = "the cluster lacks a constant"};
  }
  return predicted;
}

// A row that cannot be predicted is a bad row: no is an answer about errors only.
Error OfRow(const Suite& suite, const Row& row, Error error) {
  error.message = StrCat("suite ", suite.name(), ", row '", row.name(), "': ", error.message);
  if (error.code == ExitCode::kNo) error.code = ExitCode::kBadInput;
  return error;
}

}  // namespace

Result<PreparedRow> PrepareRow(const Suite& suite, const Row& row,
                               const std::vector<FieldValues>& sets) {
  PreparedRow prepared;
  prepared.suite = &suite;
  prepared.row = &row;
  const auto named = [&](const Error& error) { return OfRow(suite, row, error); };
  Result<Cluster> cluster = FindCluster(row.cluster().empty() ? suite.cluster() : row.cluster());
  if (!cluster.ok()) return named(cluster.error());
  prepared.cluster = std::move(cluster).value();
  for (const FieldValues& set : sets) {
    const Status done = SetField(&prepared.cluster, set.path, set.values.front());
    if (!done.ok()) return named(done.error());
  }
  if (const Status valid = ValidateCluster(prepared.cluster); !valid.ok()) {
    return named(valid.error());
  }
  const std::string& framework = row.framework().empty() ? suite.framework() : row.framework();
  if (!framework.empty()) {
    Result<Framework> found = FindFramework(framework);
    if (!found.ok()) return named(found.error());
    prepared.framework = std::move(found).value();
  }
  if (row.has_copy()) {
    const auto bytes = static_cast<double>(row.copy().bytes());
    prepared.measured[TIME] = row.seconds();
    prepared.work_at_peak_s = bytes / prepared.cluster.node().pcie().h2d_bytes_per_s();
    return prepared;
  }
  const Status done =
      row.model().empty() ? PrepareKernel(&prepared) : PrepareIteration(suite, &prepared);
  if (!done.ok()) return named(done.error());
  return prepared;
}

Result<TaskGraph> LowerRow(const PreparedRow& row) {
  if (row.row->model().empty()) return TaskGraph{};
  Result<TaskGraph> graph =
      Lower(row.model, row.cluster, row.plan, {.fold = true, .framework = &row.framework});
  if (!graph.ok()) return OfRow(*row.suite, *row.row, graph.error());
  return graph;
}

Result<Quantities> PredictRow(const PreparedRow& row, const TaskGraph& graph) {
  const Result<Quantities> predicted =
      row.row->model().empty() ? PredictKernel(row) : PredictIteration(row, graph);
  if (!predicted.ok()) return OfRow(*row.suite, *row.row, predicted.error());
  return predicted;
}

Result<Quantities> PredictRow(const PreparedRow& row) {
  const Result<TaskGraph> graph = LowerRow(row);
  if (!graph.ok()) return graph.error();
  return PredictRow(row, graph.value());
}

}  // namespace twinstep
