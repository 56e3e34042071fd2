#include "traces/kineto/kineto_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/structure.h"
#include "tests/traces/kineto/tiny_profile.h"
#include "traces/kineto/byte_source.h"
#include "traces/kineto/kineto_reader.h"
#include "traces/operator_class.h"
#include "traces/work_replay.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;

KinetoTrace Read(const std::string& text) {
  ByteSource source{std::string_view(text)};
  return ReadKineto(source, "f").value();
}

// Multiplies what has the operator class.
std::vector<double> Scaled(const WorkGraph& work, OperatorClass which, double factor) {
  std::vector<double> factors;
  for (const WorkTask& task : work.tasks) {
    factors.push_back(ClassOfOperator(work.operators[task.op]) == which ? factor : 1);
  }
  return factors;
}

std::int64_t Makespan(const WorkGraph& work, std::span<const double> factors = {}) {
  const Result<WorkReplay> run = ReplayWork(work, factors);
  EXPECT_TRUE(run.ok());
  EXPECT_EQ(CheckStructure(run.value().graph), std::nullopt);
  return run.value().replay.makespan_ps;
}

TEST(KinetoWorkTest, WithoutChangeItTakesWhatItTook) {
  const KinetoTrace trace = Read(testing::TinyProfile());
  for (const StepChoice& step :
       {StepChoice{.whole = false, .number = 1}, StepChoice{.whole = false, .number = 2},
        StepChoice{.whole = true, .number = {}}}) {
    const WorkGraph work = WorkOfKineto({&trace, 1}, step).value();
    EXPECT_EQ(Makespan(work), work.iteration_ps);
    // Every task starts when it did.
    const WorkReplay run = ReplayWork(work, {}).value();
    for (std::size_t i = 0; i < work.tasks.size(); ++i) {
      EXPECT_EQ(run.replay.start_ps[i] + work.tasks[i].gap_ps, work.tasks[i].start_ps) << i;
    }
  }
}

// Two launches at 0 and 10, the first kernel runs from 5 to 105 and the second from 107 to 117; the
// host waits from 20 to 120, then launches the third at 130, which runs from 135 to 145.
std::string HostWaits(const std::string& wait) {
  const auto event = [](const char* category, const std::string& name, int ts, int duration,
                        int correlation) {
    return "{\"ph\":\"X\",\"cat\":\"" + std::string(category) + "\",\"name\":\"" + name +
           "\",\"pid\":1,\"tid\":1,\"ts\":" + std::to_string(ts) +
           ",\"dur\":" + std::to_string(duration) + ",\"args\":{\"stream\":7,\"device\":0," +
           "\"correlation\":" + std::to_string(correlation) + "}}";
  };
  return "[" + event("cuda_runtime", "cudaLaunchKernel", 0, 2, 1) + "," +
         event("cuda_runtime", "cudaLaunchKernel", 10, 2, 2) + "," +
         event("cuda_runtime", wait, 20, 100, 3) + "," +
         event("cuda_runtime", "cudaLaunchKernel", 130, 2, 4) + "," +
         event("kernel", "sgemm", 5, 100, 1) + "," + event("kernel", "relu", 107, 10, 2) + "," +
         event("kernel", "relu", 135, 10, 4) + "]";
}

TEST(KinetoWorkTest, AHostThatWaitedWaitsLess) {
  const KinetoTrace waits = Read(HostWaits("cudaDeviceSynchronize"));
  const WorkGraph work = WorkOfKineto({&waits, 1}, {}).value();
  EXPECT_EQ(Makespan(work), 145'000'000);
  EXPECT_EQ(Makespan(work, Scaled(work, OperatorClass::kGemm, 0.5)), 95'000'000);
  EXPECT_EQ(Makespan(work, Scaled(work, OperatorClass::kGemm, 2)), 245'000'000);
  // Without the call the host's time is its own.
  const KinetoTrace busy = Read(HostWaits("cudaGetDevice"));
  const WorkGraph host = WorkOfKineto({&busy, 1}, {}).value();
  EXPECT_EQ(Makespan(host), 145'000'000);
  EXPECT_EQ(Makespan(host, Scaled(host, OperatorClass::kGemm, 0.5)), 145'000'000);
  ASSERT_EQ(host.remarks.size(), 1u);
  EXPECT_THAT(host.remarks[0], HasSubstr("no call is recorded"));
}

std::string TwoStreams(bool with_event) {
  std::string text =
      R"json([{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":0,"dur":1,
 "args":{"correlation":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":8,"dur":1,
 "args":{"correlation":4}},
{"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":5,"dur":100,
 "args":{"stream":7,"device":0,"correlation":1}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum()","pid":0,"tid":20,"ts":107,"dur":40,
 "args":{"stream":20,"device":0,"correlation":4}})json";
  if (with_event) {
    text += R"json(,{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":20,"ts":6,
 "dur":1,"args":{"cuda_sync_kind":"Stream Wait Event","stream":20,"wait_on_stream":7,
 "wait_on_cuda_event_record_corr_id":2,"correlation":3,"device":0}})json";
  }
  return text + "]";
}

TEST(KinetoWorkTest, StreamsWaitForEachOther) {
  for (const bool with_event : {true, false}) {
    const KinetoTrace trace = Read(TwoStreams(with_event));
    const WorkGraph work = WorkOfKineto({&trace, 1}, {}).value();
    EXPECT_EQ(Makespan(work), 147'000'000);
    EXPECT_EQ(Makespan(work, Scaled(work, OperatorClass::kGemm, 0.5)), 97'000'000);
    EXPECT_EQ(Makespan(work, Scaled(work, OperatorClass::kAllReduce, 0.5)), 127'000'000);
    // Told by the profile, or inferred from the times.
    EXPECT_EQ(work.remarks.size(), with_event ? 1u : 2u);
  }
}

TEST(KinetoWorkTest, CollectivesOfRanksMeet) {
  std::vector<KinetoTrace> files = {Read(TwoStreams(true)), Read(TwoStreams(true))};
  // The second rank computes 20 us longer; the first waits for it inside of its collective.
  files[1].device[0].end_ns += 20'000;
  files[1].device[1].start_ns += 20'000;
  files[1].device[1].end_ns = 147'000;
  const WorkGraph work = WorkOfKineto(files, {}).value();
  EXPECT_EQ(Makespan(work), 147'000'000);
  // Without the longer computation all would end 20 us sooner.
  std::vector<double> factors(work.tasks.size(), 1);
  for (std::size_t i = 0; i < work.tasks.size(); ++i) {
    if (work.tasks[i].rank == 1 && work.operators[work.tasks[i].op] == "sgemm") {
      factors[i] = 100. / 120;
    }
  }
  EXPECT_EQ(Makespan(work, factors), 127'000'000);
}

TEST(KinetoWorkTest, NothingOnADeviceIsNoReplay) {
  const KinetoTrace trace = Read(R"([{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":1}])");
  EXPECT_EQ(WorkOfKineto({&trace, 1}, {}).error().message,
            "f: holds no event on a device, there is nothing to replay");
}

}  // namespace
}  // namespace twinstep
