#include "traces/show/html_page.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "sim/report/markup.h"
#include "sim/str_cat.h"
#include "sim/textproto/named_texts.h"
#include "traces/breakdown.h"
#include "traces/same_graph.h"
#include "traces/show/page_data.h"

namespace twinstep {

// The files of traces/show/page and the library that they use (embedded by the build).
const std::vector<NamedText>& PageFiles();

namespace {

using nlohmann::ordered_json;

// In the order in which the page needs them.
constexpr std::array<const char*, 12> kScripts = {"d3.min",  "data",  "format",   "colours",
                                                  "spans",   "lanes", "schedule", "memory",
                                                  "details", "panel", "overview", "main"};

std::string_view File(std::string_view name) {
  for (const NamedText& file : PageFiles()) {
    if (file.name == name) return file.text;
  }
  return "";
}

// JSON that a browser's HTML parser leaves alone.
std::string ScriptText(const ordered_json& json) {
  const std::string text =
      json.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

// As the page's own field takes them.
std::string Text(const std::vector<RankRange>& ranges) {
  std::string text;
  for (const RankRange& range : ranges) {
    text += StrCat(text.empty() ? "" : ",", range.first);
    if (range.last > range.first) text += StrCat("..", range.last);
  }
  return text;
}

std::string ReportElement(const std::string& report) {
  if (report.empty()) return "";
  return StrCat("<details id=\"report\" open><summary>Comparison</summary>\n<pre>",
                MarkupText(report), "</pre></details>\n");
}

// What tells two files apart: without their folders, if that does.
std::vector<std::string> ShortNames(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) {
    std::string name = file.substr(file.rfind('/') + 1);
    const bool is_one = file.find(',') == std::string::npos;
    if (!is_one || name.empty() || std::find(names.begin(), names.end(), name) != names.end())
      return files;
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> ClassNames() {
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(TimeClass::kBubble); ++i) {
    std::string name = Label(static_cast<TimeClass>(i));
    names.push_back(name.substr(0, name.find(" exposed")));
  }
  names.push_back("other");
  names.push_back("communication");
  return names;
}

}  // namespace

Result<std::string> HtmlPage(const std::vector<const Trace*>& traces, const PageView& view) {
  ordered_json data = {{"classes", ClassNames()},   {"sameGraph", false},   {"note", ""},
                       {"ranks", Text(view.ranks)}, {"from", view.from_ps}, {"to", view.to_ps}};
  const std::vector<std::string> files =
      view.files.size() == traces.size() ? ShortNames(view.files) : std::vector<std::string>();
  std::string columns;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    Result<PageTrace> trace = ToPageTrace(*traces[i]);
    if (!trace.ok()) {
      Error error = trace.error();
      if (traces.size() > 1)
        error.message = StrCat(i == 0 ? "the first" : "the second", " trace: ", error.message);
      return error;
    }
    ordered_json& meta = data["traces"].emplace_back(std::move(trace.value().meta));
    if (i < files.size()) meta["file"] = files[i];
    columns += StrCat("<script type=\"text/plain\" id=\"trace-", i, "\">", trace.value().columns,
                      "</script>\n");
  }
  if (traces.size() == 2) {
    const Result<TaskPairs> pairs = MatchTasks(*traces[0], *traces[1]);
    data["sameGraph"] = pairs.ok();
    if (!pairs.ok()) data["note"] = pairs.error().message;
  }
  std::string page = StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<title>Twinstep timeline</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n",
      File("style"), "</style>\n</head>\n", File("body"), ReportElement(view.report),
      "<script type=\"application/json\" id=\"page-data\">", ScriptText(data), "</script>\n",
      columns, "<!-- D3 (d3js.org) is part of this page under these terms:\n\n", File("copyright"),
      "-->\n");
  for (const char* script : kScripts) page += StrCat("<script>\n", File(script), "</script>\n");
  return page + "</html>\n";
}

}  // namespace twinstep
