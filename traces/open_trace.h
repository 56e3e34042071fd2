// Traces of any format that this program reads, as a person names them.
//
//   Result<OpenedTrace> opened = OpenTrace("profiles/", {});
//   std::cout << ReadText("A", opened.value().report);  // What was read, kept, skipped, and why.
//   Use(opened.value().trace);
//
// A name is a file, a folder (all files of its traces, each a rank), or several of these with
// commas between them. The format is found by suffix and content:
//   .pb, .pb.gz            ours (traces/trace.proto)
//   .json, .json.gz, ...   Chrome trace events, ours or Kineto's (PyTorch's profiler)
//   .et                    Chakra execution traces, one file a rank: a name stands for NAME.0.et,
//                          NAME.1.et ..., if there are such. Without times they are replayed, each
//                          task as soon as it may run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/result.h"
#include "traces/kineto/kineto_window.h"
#include "traces/trace.pb.h"
#include "traces/work_graph.h"

namespace twinstep {

struct OpenOptions {
  StepChoice step;  // Of profiles; other traces hold one iteration, a number is an error.
};

// So many events of one sort.
struct ReadCount {
  std::string what;
  std::int64_t events = 0;
  double time_s = -1;  // Durations added up; below 0: not counted.
};

struct ReadReport {
  std::string format;              // "Kineto (PyTorch profiler)".
  std::vector<std::string> files;  // As read, one a process or rank.
  std::int64_t events = 0;
  std::vector<ReadCount> read;       // Used.
  std::vector<ReadCount> unknown;    // Of no known category: kept, and counted nowhere as busy.
  std::vector<ReadCount> skipped;    // By reason.
  std::vector<std::string> devices;  // "NVIDIA H200", of each file's first, once.
  std::vector<std::string> remarks;
};

struct OpenedTrace {
  Trace trace;
  ReadReport report;
};

// Errors (kBadInput) name the file and what is wrong with it.
Result<OpenedTrace> OpenTrace(const std::string& name, const OpenOptions& options);

struct OpenedWork {
  WorkGraph work;
  ReadReport report;
};

// A foreign trace (a profile, Chakra files) or Chakra files of ours as a program to replay. Errors
// (kBadInput) name the file; a trace of ours in another format is one: it has no dependencies.
Result<OpenedWork> OpenWork(const std::string& name, const OpenOptions& options);

// The files that a name stands for, in order of their numbers ("rank2" before "rank10").
Result<std::vector<std::string>> FilesOfTrace(const std::string& name);

}  // namespace twinstep
