#include "traces/open_trace.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "sim/format.h"
#include "sim/str_cat.h"
#include "traces/chakra/chakra_file.h"
#include "traces/chakra/chakra_import.h"
#include "traces/chakra/chakra_trace.h"
#include "traces/chrome_reader.h"
#include "traces/imported_names.h"
#include "traces/kineto/kineto_import.h"
#include "traces/kineto/kineto_reader.h"
#include "traces/kineto/kineto_work.h"
#include "traces/operator_class.h"
#include "traces/trace_io.h"
#include "traces/work_replay.h"

namespace twinstep {
namespace {

// Only profiles have steps; another trace is an iteration, and so all of it.
Status CheckNoStep(const std::string& name, const OpenOptions& options) {
  if (!options.step.number) return Unit{};
  return Error{.message = StrCat(name, ": is one iteration, no profile: it has no step ",
                                 *options.step.number)};
}

bool IsOwnProtobuf(const std::string& file) {
  return file.ends_with(".pb") || file.ends_with(".pb.gz");
}

constexpr const char* kFormats =
    "traces are read from .pb, .pb.gz and .json of ours, .json and .json.gz of PyTorch's profiler, "
    ".et of Chakra";

// The reason why a file that is no trace cannot be read is seldom its first byte.
Error WithFormats(Error error, const std::string& file) {
  const bool is_named_so =
      file.ends_with(".json") || file.ends_with(".gz") || IsOwnProtobuf(file) || IsChakraName(file);
  std::error_code unreadable;
  if (is_named_so || !std::filesystem::is_regular_file(file, unreadable)) return error;
  if (error.message.ends_with(".")) error.message.pop_back();
  error.message += StrCat("; ", kFormats);
  return error;
}

// Perfetto's files are for its viewer.
Status CheckIsRead(const std::string& file) {
  if (!file.ends_with(".pftrace")) return Unit{};
  return Error{.message = StrCat(file, ": Perfetto's format is only written; ", kFormats)};
}

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
    if (file.is_unclosed) {
      report.remarks.push_back(StrCat(file.path, ": the list of events is not closed"));
    }
    if (!file.device_names.empty()) {
      const std::string& device = file.device_names[0];
      if (std::ranges::count(report.devices, device) == 0) {
        report.devices.push_back(device);
        report.remarks.push_back("device " + device);
      }
    }
  }
  if (kernels.events + copies.events + fills.events == 0) {
    report.remarks.push_back(
        "no event on a device: the outermost operators of each thread are the tasks");
  } else if (without_launch > 0) {
    report.remarks.push_back(
        StrCat(CountOf(without_launch, "event"), " on devices without a launch"));
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
      StrCat(CountOf(events, "task"), " of the kind 'other', as ", ShortOperatorName(example)));
}

Result<std::vector<KinetoTrace>> ReadProfiles(const std::vector<std::string>& names) {
  std::vector<KinetoTrace> files;
  for (const std::string& name : names) {
    Result<KinetoTrace> file = ReadKineto(name);
    if (!file.ok()) return WithFormats(file.error(), name);
    files.push_back(std::move(file).value());
  }
  return files;
}

Result<OpenedTrace> OpenKineto(const std::vector<std::string>& names, const OpenOptions& options) {
  const Result<std::vector<KinetoTrace>> read = ReadProfiles(names);
  if (!read.ok()) return read.error();
  const std::vector<KinetoTrace>& files = read.value();
  Result<Trace> trace = ImportKineto(files, options.step);
  if (!trace.ok()) return trace.error();
  const Result<AlignedWindows> aligned = ChooseWindows(files, options.step);
  if (!aligned.ok()) return aligned.error();
  OpenedTrace opened{std::move(trace).value(), ReportOf(files)};
  AddUnclassified(opened.trace, &opened.report);
  if (!aligned.value().one_clock) opened.report.remarks.push_back(kClocksApart);
  return opened;
}

std::int64_t CountNodes(const std::vector<ChakraFile>& files) {
  std::int64_t nodes = 0;
  for (const ChakraFile& file : files) nodes += static_cast<std::int64_t>(file.nodes.size());
  return nodes;
}

Result<std::vector<ChakraFile>> ReadChakraFiles(const std::vector<std::string>& names) {
  std::vector<ChakraFile> files;
  for (const std::string& name : names) {
    if (!IsChakraName(name)) {
      return Error{.message = StrCat(name, ": is no .et file, as the others of its trace are")};
    }
    Result<ChakraFile> file = ReadChakraFile(name);
    if (!file.ok()) return file.error();
    files.push_back(std::move(file).value());
  }
  return files;
}

ReadReport ReportOf(const std::vector<ChakraFile>& files) {
  ReadReport report;
  const std::string schema = SchemaOf(files[0]);
  report.format = StrCat("Chakra, schema ", schema.empty() ? "not said" : schema);
  for (const ChakraFile& file : files) report.files.push_back(file.path);
  report.events = CountNodes(files);
  report.read.push_back({"nodes", report.events, -1});
  std::int64_t newer = 0;
  for (const ChakraFile& file : files) newer += file.with_newer_fields;
  if (newer > 0) {
    report.remarks.push_back(StrCat(CountOf(newer, "node"), " with fields of a newer schema"));
  }
  return report;
}

Result<OpenedTrace> OpenChakra(const std::vector<std::string>& names) {
  const Result<std::vector<ChakraFile>> read = ReadChakraFiles(names);
  if (!read.ok()) return read.error();
  const std::vector<ChakraFile>& files = read.value();
  OpenedTrace opened;
  opened.report = ReportOf(files);
  Result<std::optional<Trace>> own = OwnTraceOf(files);
  if (!own.ok()) return own.error();
  if (own.value()) {
    opened.trace = std::move(*own.value());
    return opened;
  }
  Result<ChakraImport> import = ImportChakra(files);
  if (!import.ok()) return import.error();
  const WorkGraph& work = import.value().work;
  opened.report.remarks = LintText(import.value().lint);
  if (work.iteration_ps > 0) {
    opened.trace = TracedWork(work);
    return opened;
  }
  opened.report.remarks.push_back("no times: replayed, each task as soon as it may run");
  Result<WorkReplay> run = ReplayWork(work, {});
  if (!run.ok()) {
    return Error{.message = StrCat(names[0],
                                   ": has no times and cannot be replayed: ", run.error().message)};
  }
  opened.trace = std::move(run.value().trace);
  opened.trace.set_origin(Trace::IMPORTED);
  return opened;
}

}  // namespace

Result<OpenedTrace> OpenTrace(const std::string& name, const OpenOptions& options) {
  const Result<std::vector<std::string>> files = FilesOfTrace(name);
  if (!files.ok()) return files.error();
  if (std::any_of(files.value().begin(), files.value().end(), IsChakraName)) {
    if (const Status fits = CheckNoStep(name, options); !fits.ok()) return fits.error();
    return OpenChakra(files.value());
  }
  for (const std::string& file : files.value()) {
    if (const Status read = CheckIsRead(file); !read.ok()) return read.error();
    const Result<bool> own = IsOwn(file);
    if (!own.ok()) return own.error();
    if (!own.value()) continue;
    if (files.value().size() > 1) {
      return Error{.message = StrCat(file, ": is a trace of ours, which holds all ranks, and ",
                                     files.value().size(), " files are given")};
    }
    if (const Status fits = CheckNoStep(name, options); !fits.ok()) return fits.error();
    return OpenOwn(file);
  }
  return OpenKineto(files.value(), options);
}

Result<OpenedWork> OpenWork(const std::string& name, const OpenOptions& options) {
  const Result<std::vector<std::string>> names = FilesOfTrace(name);
  if (!names.ok()) return names.error();
  if (std::any_of(names.value().begin(), names.value().end(), IsChakraName)) {
    if (const Status fits = CheckNoStep(name, options); !fits.ok()) return fits.error();
    const Result<std::vector<ChakraFile>> files = ReadChakraFiles(names.value());
    if (!files.ok()) return files.error();
    Result<ChakraImport> import = ImportChakra(files.value());
    if (!import.ok()) return import.error();
    OpenedWork opened{std::move(import.value().work), ReportOf(files.value())};
    opened.report.remarks = LintText(import.value().lint);
    return opened;
  }
  for (const std::string& file : names.value()) {
    if (const Status read = CheckIsRead(file); !read.ok()) return read.error();
    const Result<bool> own = IsOwn(file);
    if (!own.ok()) return own.error();
    if (!own.value()) continue;
    return Error{.message = StrCat(file,
                                   ": is a trace of ours without dependencies: write it as "
                                   "Chakra files (--trace FILE.et)")};
  }
  const Result<std::vector<KinetoTrace>> files = ReadProfiles(names.value());
  if (!files.ok()) return files.error();
  Result<WorkGraph> work = WorkOfKineto(files.value(), options.step);
  if (!work.ok()) return work.error();
  OpenedWork opened{std::move(work).value(), ReportOf(files.value())};
  for (const std::string& remark : opened.work.remarks) opened.report.remarks.push_back(remark);
  return opened;
}

}  // namespace twinstep
