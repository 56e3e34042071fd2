#include "traces/read_report.h"

#include <utility>

#include "sim/format.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

using Json = nlohmann::ordered_json;

// "1 kernel", "2 kernels"; other words of files stay as they are.
std::string Counted(const ReadCount& count) {
  std::string what = count.what;
  for (const auto& [plural, singular] :
       {std::pair{"kernels", "kernel"}, std::pair{"copies", "copy"}, std::pair{"fills", "fill"},
        std::pair{"tasks", "task"}, std::pair{"nodes", "node"}, std::pair{"instants", "instant"},
        std::pair{"counters", "counter"}}) {
    if (count.events == 1 && what == plural) what = singular;
  }
  return StrCat(Count(count.events), " ", what);
}

std::string List(const std::vector<ReadCount>& counts) {
  std::string text;
  for (const ReadCount& count : counts) {
    text += StrCat(text.empty() ? "" : ", ", Counted(count));
    if (count.time_s >= 0) text += StrCat(" (", Fixed(1e3 * count.time_s, 3), " ms)");
  }
  return text;
}

Json ListJson(const std::vector<ReadCount>& counts) {
  Json list = Json::array();
  for (const ReadCount& count : counts) {
    Json entry = {{"what", count.what}, {"events", count.events}};
    if (count.time_s >= 0) entry["time_s"] = count.time_s;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string ReadText(const std::string& label, const ReadReport& report) {
  std::string text = report.files.empty() ? "" : report.files[0];
  if (report.files.size() > 1) text += StrCat(" and ", report.files.size() - 1, " more");
  text += StrCat(": ", report.format, ", ", CountOf(report.events, "event"),
                 report.read.empty() ? "" : ". Read: ", List(report.read));
  if (!report.unknown.empty()) text += StrCat(". Unknown, kept: ", List(report.unknown));
  if (!report.skipped.empty()) text += StrCat(". Skipped: ", List(report.skipped));
  for (const std::string& remark : report.remarks) text += StrCat("; ", remark);
  return Paragraph(label, 12, text);
}

Json ToJson(const ReadReport& report) {
  return {{"format", report.format},
          {"files", report.files},
          {"events", report.events},
          {"read", ListJson(report.read)},
          {"unknown", ListJson(report.unknown)},
          {"skipped", ListJson(report.skipped)},
          {"remarks", report.remarks}};
}

}  // namespace twinstep
