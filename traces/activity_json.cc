#include "traces/activity_json.h"

#include <string>

#include "sim/cost/graph_costs.h"

namespace twinstep {
namespace {

using Json = nlohmann::ordered_json;

Json PairJson(const TimePair& time) {
  const std::optional<double> error = time.Error();
  return {{"a_s", time.a_s}, {"b_s", time.b_s}, {"error", error ? Json(*error) : Json(nullptr)}};
}

Json SideJson(const std::string& title, const std::string& name, const Activity& activity) {
  return {{"title", title},
          {"name", name},
          {"tasks", activity.tasks},
          {"unknown_events", activity.unknown}};
}

Json RanksJson(const Activity& activity) {
  Json ranks = Json::array();
  for (const RankActivity& rank : activity.ranks) {
    Json json = {{"rank", rank.global_rank}};
    for (int i = 0; i < kActivityPartCount; ++i) {
      json[JsonName(static_cast<ActivityPart>(i))] =
          static_cast<double>(rank.part_ps[static_cast<std::size_t>(i)]) / kPicosecondsPerSecond;
    }
    ranks.push_back(std::move(json));
  }
  return ranks;
}

Json NamedJson(const NamedTime& entry) {
  Json json = {{"name", entry.name}};
  json.update(PairJson(entry.time));
  return json;
}

}  // namespace

Json ToJson(const ActivityComparison& x) {
  Json json;
  json["a"] = SideJson(x.a_title, x.a_name, x.a);
  json["b"] = SideJson(x.b_title, x.b_name, x.b);
  json["ok"] = x.ok();
  json["iteration"] = PairJson(x.iteration);
  for (int i = 0; i < kActivityPartCount; ++i) {
    json["parts"][JsonName(static_cast<ActivityPart>(i))] =
        PairJson(x.parts[static_cast<std::size_t>(i)]);
  }
  json["ranks"] = {{"a", RanksJson(x.a)}, {"b", RanksJson(x.b)}};
  json["kinds"] = Json::array();
  for (const ActivityClassComparison& entry : x.classes) {
    json["kinds"].push_back({{"name", Name(entry.operator_class)},
                             {"a_tasks", entry.a_tasks},
                             {"b_tasks", entry.b_tasks},
                             {"time", PairJson(entry.time)},
                             {"busy", PairJson(entry.busy)},
                             {"exposed", PairJson(entry.exposed)},
                             {"overlapped", PairJson(entry.Overlapped())}});
  }
  json["phases"] = Json::array();
  for (const NamedTime& phase : x.phases) json["phases"].push_back(NamedJson(phase));
  json["operators"] = Json::array();
  for (const ActivityOperatorComparison& entry : x.operators) {
    json["operators"].push_back({{"name", entry.name},
                                 {"kind", Name(entry.operator_class)},
                                 {"a_tasks", entry.a_tasks},
                                 {"b_tasks", entry.b_tasks},
                                 {"time", PairJson(entry.time)},
                                 {"median_task", PairJson(entry.median)}});
  }
  json["largest"] = Json::array();
  for (const NamedTime& entry : x.largest) json["largest"].push_back(NamedJson(entry));
  json["verdicts"] = Json::array();
  if (x.verdict) {
    json["verdicts"].push_back(
        {{"what", x.verdict->what},
         {"error", x.verdict->error ? Json(*x.verdict->error) : Json(nullptr)},
         {"tolerance", x.verdict->tolerance},
         {"ok", x.verdict->ok}});
  }
  return json;
}

}  // namespace twinstep
