#include "sim/evaluate/suites/validate_suite.h"

#include <cstdint>
#include <set>
#include <string>

#include "sim/str_cat.h"
#include "sim/textproto/field_rules.h"

namespace twinstep {
namespace {

int TimesGiven(const Row& row) {
  return (row.iteration_s() > 0) + (row.tokens_per_s() > 0) + (row.flops_per_s() > 0) +
         (row.seconds() > 0) + (row.bus_bytes_per_s() > 0);
}

bool HasOtherMeasure(const Row& row) {
  return row.forward_s() > 0 || row.backward_s() > 0 || row.optimizer_s() > 0 ||
         row.allocated_bytes() > 0 || row.device_bytes() > 0;
}

// Empty if the row is right.
std::string ProblemOf(const CollectiveRow& row) {
  static const std::set<std::string> kOps = {"all_reduce", "all_gather", "reduce_scatter", "send"};
  constexpr std::int64_t kMostMembers = 1'000'000;
  if (!kOps.contains(row.op())) return StrCat("has no collective '", row.op(), "'");
  if (row.bytes() < 1) return "needs bytes";
  if (row.gpus_a_node() < 1) return "needs gpus_a_node";
  if (row.gpus_a_node() == 1 && row.nodes() < 2) return "needs two GPUs";
  if (row.gpus_a_node() > kMostMembers || row.nodes() > kMostMembers) {
    return StrCat("has more than ", kMostMembers, " GPUs a node, or nodes");
  }
  return "";
}

std::string ProblemOf(const Suite& suite, const Row& row) {
  const bool iteration = !row.model().empty();
  const int kinds = iteration + row.has_operation() + row.has_collective() + row.has_copy();
  if (kinds != 1) return "needs one of model, operation, collective and copy";
  if (row.cluster().empty() && suite.cluster().empty()) return "needs a cluster, or the suite one";
  if (TimesGiven(row) > 1) return "gives the time twice";
  if (TimesGiven(row) == 0 && !HasOtherMeasure(row)) return "gives nothing that was measured";
  if (iteration && row.gpus() < 1) return "needs gpus";
  const bool of_iteration = row.iteration_s() > 0 || row.tokens_per_s() > 0 || HasOtherMeasure(row);
  if (iteration ? TimesGiven(row) > 0 && !of_iteration : of_iteration) {
    return "gives a measure of another kind of row";
  }
  if (row.flops_per_s() > 0 && !row.has_operation()) return "gives flops_per_s without operation";
  if (row.bus_bytes_per_s() > 0 && !row.has_collective()) {
    return "gives bus_bytes_per_s without collective";
  }
  if (row.has_operation() && row.operation().dims_size() > 6) return "has more than six dims";
  if (row.has_copy() && row.copy().bytes() < 1) return "needs bytes";
  if (row.has_collective()) return ProblemOf(row.collective());
  return "";
}

}  // namespace

Status ValidateSuite(const Suite& suite, const TextSource& source) {
  FieldErrors errors(suite, source);
  errors.CheckEveryNumber();
  if (suite.name().empty()) errors.Add("name", "a suite needs a name");
  if (suite.rows().empty()) errors.Add("rows", "a suite needs rows");
  std::set<std::string> names;
  for (int i = 0; i < suite.rows_size(); ++i) {
    const Row& row = suite.rows(i);
    const std::string field = StrCat("rows[", i, "]");
    if (!names.insert(row.name()).second) {
      errors.Add(StrCat(field, ".name"), StrCat("another row is called '", row.name(), "'"));
    }
    const std::string problem = ProblemOf(suite, row);
    if (!problem.empty()) errors.Add(field, problem);
  }
  for (int i = 0; i < suite.fitted_size(); ++i) {
    const Fitted& fitted = suite.fitted(i);
    if (fitted.field().empty() || !(fitted.least() > 0 && fitted.least() < fitted.most())) {
      errors.Add(StrCat("fitted[", i, "]"), "needs a field and 0 < least < most");
    }
  }
  return errors.status();
}

}  // namespace twinstep
