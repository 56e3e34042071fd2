#include "sim/search/plan_files.h"

#include <google/protobuf/text_format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "sim/files/atomic_file.h"
#include "sim/format.h"
#include "sim/printable.h"
#include "sim/report/write_text.h"
#include "sim/search/plan_space.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Every file of a search has this line.
std::string SearchLine(const Ranking& report) {
  const std::string part =
      report.shards == 1 ? "" : StrCat(" part ", report.shard, "/", report.shards);
  return StrCat("# search     ", report.fingerprint, part);
}

std::string PlanPath(const std::string& directory, std::int64_t gpus, std::size_t place) {
  return StrCat(directory, "/plan-", gpus, "-", place, ".textproto");
}

bool IsOf(const std::filesystem::path& file, const std::string& search) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line) && line.starts_with("#");) {
    if (line == search) return true;
  }
  return false;
}

std::string Comment(const char* name, const std::string& text) {
  std::string label = name;
  label.resize(11, ' ');
  return StrCat("# ", label, PrintableLine(text), "\n");
}

std::string PlanText(const Ranking& report, const RankPoint& point, std::size_t place) {
  const RankRow& row = point.ranking[place];
  std::string model = report.model;
  // The plan does not say of how many layers it is.
  if (point.maximum && point.maximum->of == Maximize::kLayers) {
    model += StrCat("; --set layers=", point.maximum->value);
  }
  std::string text = Comment("plan", StrCat(place + 1, " of ", CountOf(point.gpus, "GPU"), ": ",
                                            ShortName(row.plan))) +
                     Comment("model", model) + Comment("cluster", report.cluster);
  if (row.iteration_s) {
    std::string result = StrCat(Seconds(*row.iteration_s), " an iteration");
    if (row.peak_gpu_bytes) {
      result += StrCat(", ", Bytes(static_cast<double>(*row.peak_gpu_bytes)), " a GPU");
    }
    text += Comment("predicted", result);
  }
  text += Comment("rank", report.space) + SearchLine(report) + "\n";
  std::string fields;
  google::protobuf::TextFormat::PrintToString(ToPlan(row.plan), &fields);
  return text + fields;
}

}  // namespace

bool IsPlanName(const std::string& name) {
  return name.starts_with("plan-") && name.ends_with(".textproto");
}

Status PreparePlanFolder(const std::string& directory, const Ranking& report) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return Error{.message = StrCat("--plans: ", directory, ": cannot make it: ", error.message())};
  }
  const Status writable = CheckWritable(PlanPath(directory, 1, 1));
  if (!writable.ok()) return Error{.message = "--plans: " + writable.error().message};
  std::set<std::string> others;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    if (!IsPlanName(at->path().filename().string())) continue;
    if (!IsOf(at->path(), SearchLine(report))) others.insert(at->path().string());
  }
  if (others.empty()) return Unit{};
  const std::string more =
      others.size() == 1 ? " is" : StrCat(" and ", others.size() - 1, " more are");
  return Error{.message = StrCat("--plans: ", *others.begin(), more,
                                 " not of this search, and would lie among its plans: name "
                                 "another folder, or remove ",
                                 others.size() == 1 ? "it" : "them")};
}

Status WritePlans(const std::string& directory, const Ranking& report) {
  for (const RankPoint& point : report.points) {
    for (std::size_t i = 0; i < point.ranking.size(); ++i) {
      const Status status =
          WriteTextFile(PlanPath(directory, point.gpus, i + 1), PlanText(report, point, i));
      if (!status.ok()) return status;
    }
  }
  return Unit{};
}

}  // namespace twinstep
