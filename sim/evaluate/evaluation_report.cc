#include "sim/evaluate/evaluation_report.h"

#include <algorithm>
#include <cmath>

#include "sim/format.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

std::string Signed(double fraction) {
  return StrCat(fraction < 0 ? "-" : "+", Fixed(100 * std::abs(fraction), 1));
}

std::string Points(double fraction) { return Fixed(100 * fraction, 1); }

std::string Rank(double spearman) { return std::isnan(spearman) ? "" : Fixed(spearman, 2); }

std::string Value(Quantity quantity, double value) {
  return quantity == MEMORY ? Bytes(value) : Seconds(value);
}

std::string RowTable(const Evaluation& evaluation) {
  TextTable table({"row", "what", "measured", "predicted", "error %", "null %", "note"});
  table.AlignLeft(1);
  table.AlignLeft(6);
  for (const EvaluatedRow& row : evaluation.rows) {
    for (const QuantitySummary& summary : evaluation.summaries) {
      const Quantity quantity = summary.quantity;
      const double measured = row.measured.Of(quantity);
      if (measured <= 0) continue;
      const double predicted = row.predicted.Of(quantity);
      table.AddRow({row.row->name(), Label(quantity), Value(quantity, measured),
                    Value(quantity, predicted), Signed(predicted / measured - 1),
                    quantity == TIME ? Signed(row.null_time_s / measured - 1) : "",
                    row.counts() ? "" : StrCat("outlier: ", row.row->outlier())});
    }
  }
  return table.ToString();
}

std::string GoalText(const Evaluation& evaluation, Quantity quantity) {
  google::protobuf::RepeatedPtrField<Limit> goals;
  for (const Limit& goal : evaluation.suite->goals()) {
    if (goal.quantity() == quantity) *goals.Add() = goal;
  }
  if (goals.empty()) return "";
  return Violations(evaluation, goals).empty() ? "met" : "missed";
}

nlohmann::ordered_json ToJson(const ErrorSummary& summary) {
  return {{"rows", summary.count},
          {"median_error", summary.median},
          {"worst_error", summary.worst},
          {"mean_error", summary.mean},
          {"bias", summary.bias}};
}

void AddRanks(double spearman, const PairOrder& order, nlohmann::ordered_json* json) {
  if (!std::isnan(spearman)) (*json)["spearman"] = spearman;
  if (order.total > 0) {
    (*json)["pairs"] = order.total;
    (*json)["pairs_in_order"] = order.right;
  }
}

const char* UnitOf(Quantity quantity) { return quantity == MEMORY ? "bytes" : "s"; }

nlohmann::ordered_json ToJson(const Evaluation& evaluation) {
  nlohmann::ordered_json json = {{"name", evaluation.suite->name()},
                                 {"description", evaluation.suite->description()},
                                 {"source", evaluation.suite->source()}};
  nlohmann::ordered_json& quantities = json["quantities"] = nlohmann::ordered_json::array();
  for (const QuantitySummary& summary : evaluation.summaries) {
    nlohmann::ordered_json of_quantity = {{"quantity", Label(summary.quantity)}};
    of_quantity.update(ToJson(summary.model));
    AddRanks(summary.spearman, summary.order, &of_quantity);
    if (summary.quantity == TIME) {
      of_quantity["null_model"] = ToJson(summary.null);
      AddRanks(summary.null_spearman, summary.null_order, &of_quantity["null_model"]);
    }
    quantities.push_back(of_quantity);
  }
  json["goals_missed"] = Violations(evaluation, evaluation.suite->goals());
  json["worse_than_recorded"] =
      Violations(evaluation, evaluation.suite->recorded(), kRecordedPrecision);
  nlohmann::ordered_json& rows = json["rows"] = nlohmann::ordered_json::array();
  for (const EvaluatedRow& row : evaluation.rows) {
    nlohmann::ordered_json of_row = {{"name", row.row->name()}, {"cluster", row.cluster}};
    if (!row.counts()) of_row["outlier"] = row.row->outlier();
    for (const QuantitySummary& summary : evaluation.summaries) {
      const double measured = row.measured.Of(summary.quantity);
      if (measured <= 0) continue;
      const std::string name = StrCat(Label(summary.quantity), "_", UnitOf(summary.quantity));
      const double predicted = row.predicted.Of(summary.quantity);
      of_row[StrCat("measured_", name)] = measured;
      of_row[StrCat("predicted_", name)] = predicted;
      of_row[StrCat(Label(summary.quantity), "_error")] = predicted / measured - 1;
      if (summary.quantity == TIME) of_row["null_time_s"] = row.null_time_s;
    }
    rows.push_back(of_row);
  }
  return json;
}

}  // namespace

std::string SummaryText(const std::vector<Evaluation>& evaluations) {
  TextTable table({"suite", "what", "rows", "median", "worst", "mean", "bias", "rank", "order",
                   "null: median", "worst", "rank", "goal"});
  table.AlignLeft(1);
  for (const Evaluation& evaluation : evaluations) {
    for (const QuantitySummary& summary : evaluation.summaries) {
      const bool has_null = summary.null.count > 0;
      table.AddRow(
          {evaluation.suite->name(), Label(summary.quantity), StrCat(summary.model.count),
           Points(summary.model.median), Points(summary.model.worst), Points(summary.model.mean),
           Signed(summary.model.bias), Rank(summary.spearman),
           summary.order.total == 0 ? "" : StrCat(summary.order.right, "/", summary.order.total),
           has_null ? Points(summary.null.median) : "", has_null ? Points(summary.null.worst) : "",
           Rank(summary.null_spearman), GoalText(evaluation, summary.quantity)});
    }
  }
  return table.ToString();
}

std::string ToText(const std::vector<Evaluation>& evaluations, bool rows) {
  std::string text;
  if (rows) {
    for (const Evaluation& evaluation : evaluations) {
      text +=
          Paragraph("", 0, StrCat(evaluation.suite->name(), ": ", evaluation.suite->description()));
      text += RowTable(evaluation) + "\n";
    }
  }
  text +=
      "Errors |predicted / measured - 1| in %; rank correlation and order inside one model's "
      "rows\n";
  text += SummaryText(evaluations);
  for (const Evaluation& evaluation : evaluations) {
    for (const std::string& miss : Violations(evaluation, evaluation.suite->goals())) {
      text += StrCat("goal missed: ", evaluation.suite->name(), ": ", miss, "\n");
    }
  }
  return text;
}

nlohmann::ordered_json ToJson(const std::vector<Evaluation>& evaluations) {
  nlohmann::ordered_json json = {{"suites", nlohmann::ordered_json::array()}};
  for (const Evaluation& evaluation : evaluations) json["suites"].push_back(ToJson(evaluation));
  return json;
}

}  // namespace twinstep
