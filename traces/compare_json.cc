#include "traces/compare_json.h"

#include <vector>

namespace twinstep {
namespace {

using Json = nlohmann::ordered_json;

Json ErrorJson(std::optional<double> error) { return error ? Json(*error) : Json(nullptr); }

Json PairJson(const TimePair& time) {
  return {{"a_s", time.a_s}, {"b_s", time.b_s}, {"error", ErrorJson(time.Error())}};
}

Json GroupsJson(const std::vector<GroupComparison>& groups) {
  Json result = Json::array();
  for (const GroupComparison& group : groups) {
    Json json = {{"name", group.name}, {"tasks", group.tasks}};
    json.update(PairJson(group.busy));
    json["median_task_error"] = ErrorJson(group.median_task_error);
    std::int64_t known = 0;
    for (const std::int64_t tasks : group.evidence) known += tasks;
    if (known > 0) {
      for (int i = 0; i < kEvidenceCount; ++i) {
        json["evidence"][Name(static_cast<Evidence>(i))] =
            group.evidence[static_cast<std::size_t>(i)];
      }
    }
    result.push_back(std::move(json));
  }
  return result;
}

Json BreakdownJson(const Breakdown& breakdown) {
  Json json;
  for (int i = 0; i < kTimeClassCount; ++i) {
    const auto time_class = static_cast<TimeClass>(i);
    json[JsonName(time_class)] = static_cast<double>(breakdown[time_class]) / kPicosecondsPerSecond;
  }
  return json;
}

}  // namespace

Json ToJson(const TraceComparison& x) {
  Json json;
  json["a"] = {{"title", x.a_title}, {"name", x.a_name}};
  json["b"] = {{"title", x.b_title}, {"name", x.b_name}};
  json["ok"] = x.ok();
  json["tasks"] = x.tasks;
  json["iteration"] = PairJson(x.iteration);
  for (std::size_t i = 0; i < x.mean_breakdown.size(); ++i) {
    json["breakdown"][JsonName(static_cast<TimeClass>(i))] = PairJson(x.mean_breakdown[i]);
  }
  for (const RankComparison& rank : x.ranks) {
    json["ranks"].push_back(
        {{"rank", rank.global_rank}, {"a", BreakdownJson(rank.a)}, {"b", BreakdownJson(rank.b)}});
  }
  json["kinds"] = GroupsJson(x.kinds);
  json["lanes"] = GroupsJson(x.lanes);
  json["phases"] = GroupsJson(x.phases);
  json["operators"] = GroupsJson(x.operators);
  json["memory"] = Json::array();
  for (const MemoryComparison& memory : x.memory) {
    const TimePair pair{static_cast<double>(memory.a_bytes), static_cast<double>(memory.b_bytes)};
    json["memory"].push_back({{"pool", Name(memory.pool)},
                              {"rank", memory.global_rank},
                              {"a_bytes", memory.a_bytes},
                              {"b_bytes", memory.b_bytes},
                              {"error", ErrorJson(pair.Error())}});
  }
  json["largest_tasks"] = Json::array();
  for (const TaskComparison& task : x.largest) {
    Json entry = {{"task", task.task}, {"name", task.name}};
    entry.update(PairJson(task.time));
    json["largest_tasks"].push_back(std::move(entry));
  }
  json["verdicts"] = Json::array();
  for (const Verdict& verdict : x.verdicts) {
    json["verdicts"].push_back({{"what", verdict.what},
                                {"error", ErrorJson(verdict.error)},
                                {"tolerance", verdict.tolerance},
                                {"ok", verdict.ok}});
  }
  return json;
}

}  // namespace twinstep
