#include "traces/kineto/kineto_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/traces/kineto/read_profile.h"
#include "tests/traces/kineto/tiny_profile.h"
#include "traces/operator_class.h"
#include "traces/work_replay.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;

KinetoTrace Read(const std::string& text) { return testing::ReadProfile(text).value(); }

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
  return run.value().makespan_ps;
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
      EXPECT_EQ(run.start_ps[i], work.tasks[i].start_ps) << i;
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
  WorkGraph work = WorkOfKineto(files, {}).value();
  EXPECT_EQ(Makespan(work), 147'000'000);
  // A profile with steps beside one without: the order alone tells what meets.
  files[1].steps.push_back({7, 0, 200'000});
  work = WorkOfKineto(files, {}).value();
  EXPECT_EQ(work.rendezvous.size(), 1u);
  EXPECT_EQ(work.rendezvous[0].tasks, 2u);
  // Without the longer computation all would end 20 us sooner.
  std::vector<double> factors(work.tasks.size(), 1);
  for (std::size_t i = 0; i < work.tasks.size(); ++i) {
    if (work.tasks[i].rank == 1 && work.operators[work.tasks[i].op] == "sgemm") {
      factors[i] = 100. / 120;
    }
  }
  EXPECT_EQ(Makespan(work, factors), 127'000'000);
}

std::string Kernel(const std::string& name, int stream, int ts, int duration,
                   const std::string& more = "", int device = 0) {
  return R"({"ph":"X","cat":"kernel","name":")" + name + R"(","pid":0,"tid":7,"ts":)" +
         std::to_string(ts) + R"(,"dur":)" + std::to_string(duration) + R"(,"args":{"stream":)" +
         std::to_string(stream) + R"(,"device":)" + std::to_string(device) + more + "}}";
}

WorkGraph WorkOf(const std::vector<std::string>& files) {
  std::vector<KinetoTrace> traces;
  for (const std::string& file : files) traces.push_back(Read(file));
  const Result<WorkGraph> work = WorkOfKineto(traces, {});
  EXPECT_TRUE(work.ok()) << work.error().message;
  return work.value();
}

TEST(KinetoWorkTest, AsManyStreamsAsThereAre) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += (i == 0 ? "[" : ",") + Kernel("sgemm", i, i, 100);
  EXPECT_EQ(Makespan(WorkOf({text + "]"})), 139'000'000);
}

TEST(KinetoWorkTest, KernelsOfAStreamMayOverlap) {
  // Each begins in the middle of the one before it; two branches of a graph; a launch that begins
  // just before the end of the one before it.
  std::string half;
  for (int i = 0; i < 50; ++i) half += (i == 0 ? "[" : ",") + Kernel("sgemm", 7, 50 * i, 100);
  const WorkGraph staggered = WorkOf({half + "]"});
  EXPECT_EQ(Makespan(staggered), 2'550'000'000);
  EXPECT_LT(Makespan(staggered, Scaled(staggered, OperatorClass::kGemm, 0.5)), 1'400'000'000);

  const WorkGraph branches =
      WorkOf({"[" + Kernel("sgemm", 7, 0, 100) + "," + Kernel("relu", 7, 10, 20) + "," +
              Kernel("softmax", 7, 100, 10) + "]"});
  EXPECT_EQ(Makespan(branches), 110'000'000);
  // What comes after the branches waits for both.
  EXPECT_EQ(Makespan(branches, Scaled(branches, OperatorClass::kElementwise, 10)), 220'000'000);
  EXPECT_EQ(Makespan(branches, Scaled(branches, OperatorClass::kGemm, 0.5)), 60'000'000);

  const WorkGraph early =
      WorkOf({"[" + Kernel("sgemm", 7, 0, 100) + "," + Kernel("relu", 7, 95, 50) + "]"});
  EXPECT_EQ(Makespan(early), 145'000'000);
  EXPECT_EQ(Makespan(early, Scaled(early, OperatorClass::kGemm, 0.5)), 95'000'000);
}

TEST(KinetoWorkTest, DevicesOfOneProcessAreRanks) {
  const std::string nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL()";
  const WorkGraph work = WorkOf(
      {"[" + Kernel("sgemm", 7, 0, 100, "", 0) + "," + Kernel("sgemm", 7, 0, 60, "", 1) + "," +
       Kernel(nccl, 20, 100, 10, "", 0) + "," + Kernel(nccl, 20, 60, 50, "", 1) + "]"});
  ASSERT_EQ(work.ranks.size(), 2u);
  EXPECT_EQ(Makespan(work), 110'000'000);
  EXPECT_EQ(Makespan(work, Scaled(work, OperatorClass::kGemm, 0.5)), 60'000'000);
  EXPECT_THAT(work.remarks[0], HasSubstr("2 devices of 1 files are a rank each"));
}

TEST(KinetoWorkTest, MessagesMeetTheirOtherEndOnly) {
  const auto file = [](int rank, const std::string& kernels) {
    return R"({"distributedInfo":{"rank":)" + std::to_string(rank) + R"(},"traceEvents":[)" +
           kernels + "]}";
  };
  const auto send = [](int to) {
    return R"(,"Collective name":"send","Dst Rank":)" + std::to_string(to) +
           R"(,"Process Group Name":"0")";
  };
  const auto receive = [](int from) {
    return R"(,"Collective name":"recv","Src Rank":)" + std::to_string(from) +
           R"(,"Process Group Name":"0")";
  };
  const std::string p2p = "ncclDevKernel_SendRecv()";
  // A pipeline of three stages: 0 sends to 1 at 100, 1 to 2 at 210.
  const WorkGraph work =
      WorkOf({file(0, Kernel("sgemm", 7, 0, 100) + "," + Kernel(p2p, 20, 100, 10, send(1))),
              file(1, Kernel(p2p, 20, 5, 105, receive(0)) + "," + Kernel("sgemm", 7, 110, 100) +
                          "," + Kernel(p2p, 24, 210, 10, send(2))),
              file(2, Kernel(p2p, 20, 5, 215, receive(1)) + "," + Kernel("sgemm", 7, 220, 100))});
  EXPECT_EQ(Makespan(work), 320'000'000);
  EXPECT_EQ(Makespan(work, Scaled(work, OperatorClass::kGemm, 0.5)), 170'000'000);
  EXPECT_EQ(work.rendezvous.size(), 2u);
}

TEST(KinetoWorkTest, MessagesThatNameNoPartnerMeetWhoEndsWithThem) {
  const auto file = [](int rank, const std::string& kernels) {
    return R"({"distributedInfo":{"rank":)" + std::to_string(rank) + R"(},"traceEvents":[)" +
           kernels + "]}";
  };
  const std::string p2p = "ncclDevKernel_SendRecv()";
  const std::string send = R"(,"Collective name":"send","Process Group Name":"0")";
  const std::string receive = R"(,"Collective name":"recv","Process Group Name":"0")";
  // 0 sends to 1 at 100, 1 to 2 at 250, where the receive ends a little later.
  const WorkGraph work =
      WorkOf({file(0, Kernel("sgemm", 7, 0, 100) + "," + Kernel(p2p, 20, 100, 50, send)),
              file(1, Kernel(p2p, 20, 0, 150, receive) + "," + Kernel("sgemm", 7, 150, 100) + "," +
                          Kernel(p2p, 24, 250, 50, send)),
              file(2, Kernel(p2p, 20, 0, 301, receive) + "," + Kernel("sgemm", 7, 301, 99))});
  EXPECT_EQ(work.rendezvous.size(), 2u);
  EXPECT_NEAR(static_cast<double>(Makespan(work)), 400e6, 2e6);
  EXPECT_NEAR(static_cast<double>(Makespan(work, Scaled(work, OperatorClass::kSendRecv, 2))), 500e6,
              4e6);
}

TEST(KinetoWorkTest, OrdersThatDoNotFitAreNamed) {
  const std::string text =
      "[" + Kernel("ncclDevKernel_AllReduce()", 20, 0, 10, R"(,"Collective name":"allreduce",
"Process Group Name":"x")") +
      "," + Kernel("ncclDevKernel_AllReduce()", 20, 20, 10, R"(,"Collective name":"allreduce",
"Process Group Name":"y")") +
      "]";
  std::string other = text;
  other[other.find("\"x\"") + 1] = 'z';
  other[other.find("\"y\"") + 1] = 'x';
  other[other.find("\"z\"") + 1] = 'y';
  const WorkGraph work = WorkOf({text, other});
  const Result<WorkReplay> run = ReplayWork(work, {});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, ExitCode::kBadInput);
  EXPECT_THAT(
      run.error().message,
      HasSubstr("the ranks wait for each other in a circle: ncclDevKernel_AllReduce of rank "
                "0 in stream 20, traced at 0 s meets"));
}

TEST(KinetoWorkTest, AStepHasAllThatRunsInIt) {
  // Every 100 us a kernel of 10 us and a collective that reaches 30 us into the next step.
  std::string text;
  for (int i = 0; i < 5; ++i) {
    const std::string at = std::to_string(100 * i);
    text += (i == 0 ? "[" : ",") +
            std::string(R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#)") +
            std::to_string(i) + R"(","pid":1,"tid":1,"ts":)" + at + R"(,"dur":90},)" +
            Kernel("sgemm", 7, 100 * i + 1, 10) + "," +
            Kernel("ncclDevKernel_AllReduce()", 20, 100 * i + 50, 80);
  }
  const KinetoTrace trace = Read(text + "]");
  const KinetoWindow window = ChooseWindow(trace, {.number = 2}).value();
  EXPECT_EQ(window.device.size(), 3u);
  const WorkGraph work = WorkOfKineto({&trace, 1}, {.number = 2}).value();
  EXPECT_EQ(work.iteration_ps, 100'000'000);
  EXPECT_EQ(Makespan(work), 100'000'000);
}

// The second step launches what begins before the first one's kernel.
TEST(KinetoWorkTest, AStepInWhichNothingRunsIsNotTaken) {
  const auto step = [](int number, int ts) {
    return R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#)" + std::to_string(number) +
           R"(","pid":1,"tid":1,"ts":)" + std::to_string(ts) +
           R"(,"dur":9},{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,
           "ts":)" +
           std::to_string(ts + 1) + R"(,"dur":1,"args":{"correlation":)" + std::to_string(number) +
           "}}";
  };
  const KinetoTrace trace = Read("[" + step(1, 0) + "," + step(2, 10) + "," +
                                 Kernel("sgemm", 7, 50, 10, R"(,"correlation":1)") + "," +
                                 Kernel("sgemm", 8, 30, 10, R"(,"correlation":2)") + "]");
  EXPECT_EQ(ChooseWindow(trace, {}).value().step, std::nullopt);
  EXPECT_EQ(WorkOfKineto({&trace, 1}, {.number = 1}).error().message,
            "f: nothing runs in the step");
}

TEST(KinetoWorkTest, NothingOnADeviceIsNoReplay) {
  const KinetoTrace trace = Read(R"([{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":1}])");
  EXPECT_EQ(WorkOfKineto({&trace, 1}, {}).error().message,
            "f: holds no event on a device, there is nothing to replay");
}

}  // namespace
}  // namespace twinstep
