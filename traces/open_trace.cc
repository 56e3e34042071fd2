#include "traces/open_trace.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/str_cat.h"
#include "traces/chrome_reader.h"
#include "traces/imported_names.h"
#include "traces/kineto/kineto_import.h"
#include "traces/kineto/kineto_reader.h"
#include "traces/operator_class.h"
#include "traces/trace_io.h"

namespace twinstep {
namespace {

bool IsOwnProtobuf(const std::string& file) { return file.ends_with(".pb"); }

Result<bool> IsOwn(const std::string& file) {
  if (IsOwnProtobuf(file)) return true;
  return IsOwnChromeJson(file);
}

Result<OpenedTrace> OpenOwn(const std::string& file) {
  Result<Trace> trace = IsOwnProtobuf(file) ? ReadTrace(file) : ReadChromeTrace(file);
  if (!trace.ok()) return trace.error();
  OpenedTrace opened{std::move(trace).value(), {}};
  opened.report.format = "Twinstep";
  opened.report.files = {file};
  opened.report.events = opened.trace.task_size();
  opened.report.read.push_back({"tasks", opened.trace.task_size(), -1});
  return opened;
}

void AddCounts(const std::map<std::string, std::int64_t>& counts, std::vector<ReadCount>* out) {
  for (const auto& [what, events] : counts) {
    const auto same = std::find_if(out->begin(), out->end(),
                                   [&what = what](const ReadCount& x) { return x.what == what; });
    if (same == out->end()) {
      out->push_back({what, events, -1});
    } else {
      same->events += events;
    }
  }
}

ReadReport ReportOf(const std::vector<KinetoTrace>& files) {
  ReadReport report;
  report.format = "Kineto (PyTorch profiler) or other Chrome trace";
  ReadCount kernels{"kernels", 0, 0}, copies{"copies", 0, 0}, fills{"fills", 0, 0};
  std::int64_t without_launch = 0;
  for (const KinetoTrace& file : files) {
    report.files.push_back(file.path);
    report.events += file.counts.events;
    for (const DeviceEvent& event : file.device) {
      ReadCount& count = event.kind == DeviceKind::kKernel   ? kernels
                         : event.kind == DeviceKind::kMemcpy ? copies
                                                             : fills;
      ++count.events;
      count.time_s += static_cast<double>(event.end_ns - event.start_ns) * 1e-9;
      without_launch += event.call == kNoIndex;
    }
  }
  for (const ReadCount& count : {kernels, copies, fills}) {
    if (count.events > 0) report.read.push_back(count);
  }
  for (const KinetoTrace& file : files) {
    std::map<std::string, std::int64_t> on_host = file.counts.read;
    for (const char* device :
         {"kernel", "concurrent_kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset"}) {
      on_host.erase(device);
    }
    AddCounts(on_host, &report.read);
    AddCounts(file.counts.unknown, &report.unknown);
    AddCounts(file.counts.skipped, &report.skipped);
    if (!file.device_names.empty()) {
      const std::string remark = StrCat("device ", file.device_names[0]);
      if (std::find(report.remarks.begin(), report.remarks.end(), remark) == report.remarks.end()) {
        report.remarks.push_back(remark);
      }
    }
  }
  if (kernels.events + copies.events + fills.events == 0) {
    report.remarks.push_back(
        "no event on a device: the outermost operators of each thread are the tasks");
  } else if (without_launch > 0) {
    report.remarks.push_back(StrCat(without_launch, " events on devices without their launch"));
  }
  return report;
}

// Kernels whose name no rule knows.
void AddUnclassified(const Trace& trace, ReadReport* report) {
  std::vector<bool> other;
  for (const std::string& name : trace.operators()) {
    other.push_back(ClassOfOperator(name) == OperatorClass::kOther);
  }
  std::int64_t events = 0;
  std::string example;
  for (int i = 0; i < trace.task_size(); ++i) {
    if (!other[trace.op(i)] || trace.kinds(static_cast<int>(trace.kind(i))) == kUnknownKind) {
      continue;
    }
    if (events++ == 0) example = trace.operators(static_cast<int>(trace.op(i)));
  }
  if (events == 0) return;
  report->remarks.push_back(
      StrCat(events, " tasks of the kind 'other', as ", ShortOperatorName(example)));
}

Result<OpenedTrace> OpenKineto(const std::vector<std::string>& names, const OpenOptions& options) {
  std::vector<KinetoTrace> files;
  for (const std::string& name : names) {
    Result<KinetoTrace> file = ReadKineto(name);
    if (!file.ok()) return file.error();
    files.push_back(std::move(file).value());
  }
  Result<Trace> trace = ImportKineto(files, options.step);
  if (!trace.ok()) return trace.error();
  OpenedTrace opened{std::move(trace).value(), ReportOf(files)};
  AddUnclassified(opened.trace, &opened.report);
  return opened;
}

}  // namespace

Result<OpenedTrace> OpenTrace(const std::string& name, const OpenOptions& options) {
  const Result<std::vector<std::string>> files = FilesOfTrace(name);
  if (!files.ok()) return files.error();
  for (const std::string& file : files.value()) {
    const Result<bool> own = IsOwn(file);
    if (!own.ok()) return own.error();
    if (!own.value()) continue;
    if (files.value().size() > 1) {
      return Error{.message = StrCat(file, ": is a trace of ours, which holds all ranks, and ",
                                     files.value().size(), " files are given")};
    }
    return OpenOwn(file);
  }
  return OpenKineto(files.value(), options);
}

}  // namespace twinstep
