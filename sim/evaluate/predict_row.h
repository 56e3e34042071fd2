// One row of a suite, predicted: the iteration lowered and replayed, or the kernel, collective or
// copy priced.
//
//   Result<PreparedRow> row = PrepareRow(suite, suite.rows(0));
//   Result<Quantities> predicted = PredictRow(row.value());
//   predicted.value().Of(TIME)  // Seconds.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/frameworks/framework.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/evaluate/suites/suite.pb.h"
#include "sim/graph/op.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"
#include "sim/textproto/set_field.h"

namespace twinstep {

inline constexpr int kQuantityCount = Quantity_ARRAYSIZE;

// A value a quantity; 0 where there is none. Seconds, or bytes of MEMORY.
struct Quantities {
  std::array<double, kQuantityCount> values{};
  double Of(Quantity quantity) const { return values[static_cast<std::size_t>(quantity)]; }
  double& operator[](Quantity quantity) { return values[static_cast<std::size_t>(quantity)]; }
};

// A row with its names looked up.
struct PreparedRow {
  const Suite* suite = nullptr;  // Must outlive this.
  const Row* row = nullptr;      // Of the suite.
  Cluster cluster;
  Framework framework;  // Without a name: none.
  Model model;          // Of an iteration.
  ResolvedPlan plan;    // Likewise.
  OpShape shape;        // Of an operation or a collective.
  Quantities measured;
  // What a null model sees: the work, in floating-point operations or wire bytes, that the row does
  // a second at peak. seconds at peak = work_at_peak_s.
  double work_at_peak_s = 0;
  // By what times of rows that compare are made comparable: iterations by tokens a GPU.
  double time_unit = 1;
};

// `sets` change clusters (their fields as --set names them). Errors of all functions name suite
// and row.
Result<PreparedRow> PrepareRow(const Suite& suite, const Row& row,
                               const std::vector<FieldValues>& sets = {});

// Predicts what was measured of the row (the others stay 0).
Result<Quantities> PredictRow(const PreparedRow& row);

// In two steps, so that a graph serves several clusters that differ in what tasks cost alone: the
// iteration's graph (of a kernel: an empty one), and the row predicted with it.
Result<TaskGraph> LowerRow(const PreparedRow& row);
Result<Quantities> PredictRow(const PreparedRow& row, const TaskGraph& graph);

}  // namespace twinstep
