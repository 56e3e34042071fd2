// What profilers and versions write differently: each a small file made by hand, with what it
// means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/traces/kineto/read_profile.h"
#include "traces/activity.h"
#include "traces/check_trace.h"
#include "traces/kineto/kineto_import.h"
#include "traces/kineto/kineto_reader.h"

namespace twinstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Activity Summary(const std::vector<KinetoTrace>& files) {
  const Result<Trace> trace = ImportKineto(files, {});
  EXPECT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(TraceProblem(trace.value()), "");
  return SummarizeActivity(trace.value());
}

Activity SummaryOf(const std::string& text) {
  std::vector<KinetoTrace> files;
  files.push_back(testing::ReadProfile(text).value());
  return Summary(files);
}

double BusyOf(const Activity& activity, OperatorClass operator_class) {
  return activity.classes[static_cast<std::size_t>(operator_class)].busy_s;
}

std::int64_t Counted(const KinetoTrace& trace) {
  std::int64_t all = 0;
  for (const auto* counts : {&trace.counts.read, &trace.counts.unknown, &trace.counts.skipped}) {
    for (const auto& [what, count] : *counts) all += count;
  }
  return all;
}

TEST(KinetoVariantsTest, BeginsAndEndsAreSpans) {
  // An operator inside of another, a kernel whose end comes before its begin in the file.
  const KinetoTrace trace = testing::ReadProfile(R"json({"traceEvents":[
{"ph":"E","pid":0,"tid":7,"ts":55},
{"ph":"B","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":0},
{"ph":"B","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":10},
{"ph":"E","pid":1,"tid":1,"ts":20},
{"ph":"B","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":21,
 "args":{"correlation":3}},
{"ph":"E","pid":1,"tid":1,"ts":22},
{"ph":"E","name":"outer","pid":1,"tid":1,"ts":100},
{"ph":"B","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":25,
 "args":{"stream":7,"device":0,"correlation":3}},
{"ph":"B","cat":"kernel","name":"lost","pid":0,"tid":7,"ts":60},
{"ph":"E","name":"nobody","pid":9,"tid":7,"ts":60},
{"ph":"B","cat":"gpu_user_annotation","name":"mark","pid":0,"tid":9,"ts":1},
{"ph":"E","pid":0,"tid":9,"ts":2}]})json")
                                .value();
  ASSERT_EQ(trace.host_ops.size(), 2u);
  EXPECT_EQ(trace.host_ops[0].end_ns, 100'000);
  EXPECT_EQ(trace.host_ops[1].end_ns, 20'000);
  ASSERT_EQ(trace.device.size(), 1u);
  EXPECT_EQ(trace.device[0].start_ns, 25'000);
  EXPECT_EQ(trace.device[0].end_ns, 55'000);
  EXPECT_EQ(trace.device[0].call, 0u);
  EXPECT_THAT(trace.counts.skipped,
              ElementsAre(Pair("begins without an end (as lost)", 1),
                          Pair("ends without a begin (as nobody)", 1),
                          Pair("gpu_user_annotation (marks around kernels)", 2)));
  EXPECT_EQ(Counted(trace), trace.counts.events);
}

TEST(KinetoVariantsTest, WhatIsPassedOverAndHasNoEndIsCountedOnce) {
  const KinetoTrace trace = testing::ReadProfile(R"json([
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1},
{"ph":"B","cat":"python_function","name":"f","pid":1,"tid":1,"ts":1}])json")
                                .value();
  EXPECT_THAT(trace.counts.skipped, ElementsAre(Pair("begins without an end (as f)", 1)));
  EXPECT_EQ(Counted(trace), trace.counts.events);
}

TEST(KinetoVariantsTest, AnyProgramsSpansAreTasksOfItsThreads) {
  const Activity activity = SummaryOf(R"([{"ph":"B","name":"a","pid":1,"tid":1,"ts":0},
      {"ph":"B","name":"b","pid":1,"tid":1,"ts":2},{"ph":"E","pid":1,"tid":1,"ts":5},
      {"ph":"E","pid":1,"tid":1,"ts":10},{"ph":"B","name":"c","pid":1,"tid":2,"ts":12},
      {"ph":"E","name":"c","pid":1,"tid":2,"ts":14}])");
  EXPECT_EQ(activity.tasks, 2);  // The outermost.
  EXPECT_THAT(activity.ranks[0].part_ps, ElementsAre(12'000'000, 0, 0, 2'000'000));
}

TEST(KinetoVariantsTest, AsynchronousSpansAreMatchedById) {
  const KinetoTrace trace = testing::ReadProfile(R"([
{"ph":"b","cat":"net","id":"0x1","name":"load","pid":1,"tid":1,"ts":1},
{"ph":"b","cat":"net","id":2,"name":"load","pid":1,"tid":1,"ts":3},
{"ph":"n","cat":"net","id":2,"name":"half","pid":1,"tid":1,"ts":4},
{"ph":"e","cat":"net","id":2,"name":"load","pid":1,"tid":5,"ts":30},
{"ph":"e","cat":"net","id":"0x1","name":"load","pid":1,"tid":1,"ts":40},
{"ph":"b","cat":"net","id2":{"local":"7"},"name":"load","pid":1,"tid":1,"ts":31},
{"ph":"e","cat":"net","id2":{"local":"7"},"name":"load","pid":1,"tid":1,"ts":35},
{"ph":"S","cat":"old","id":1,"name":"x","pid":1,"tid":1,"ts":50},
{"ph":"F","cat":"old","id":1,"name":"x","pid":1,"tid":1,"ts":60}])")
                                .value();
  ASSERT_EQ(trace.unknown.size(), 4u);
  EXPECT_EQ(trace.unknown[0].end_ns, 40'000);
  EXPECT_EQ(trace.unknown[1].end_ns, 30'000);
  EXPECT_EQ(trace.unknown[2].end_ns, 35'000);
  EXPECT_EQ(trace.unknown[3].end_ns, 60'000);
  // Those that overlap are in lanes of their own.
  EXPECT_EQ(trace.threads[trace.unknown[0].thread], "1/async net");
  EXPECT_EQ(trace.threads[trace.unknown[1].thread], "1/async net (2)");
  EXPECT_EQ(trace.threads[trace.unknown[2].thread], "1/async net (2)");
  EXPECT_EQ(Counted(trace), trace.counts.events);
}

TEST(KinetoVariantsTest, WithoutASpanThereIsNoTrace) {
  EXPECT_EQ(testing::ReadProfile(
                R"([{"ph":"C","name":"m","ts":1,"args":{"b":1}},{"ph":"i","name":"x","ts":1}])")
                .error()
                .message,
            "f: holds no kernel, copy, call, operator or other span (2 events: 1 counters, 1 "
            "instants)");
  EXPECT_THAT(
      testing::ReadProfile(R"([{"ph":"X","cat":"python_function","name":"f","ts":1,"dur":1}])")
          .error()
          .message,
      HasSubstr("(1 events: 1 python_function (call stacks))"));
  EXPECT_THAT(
      testing::ReadProfile(R"([{"ph":"B","cat":"kernel","name":"k","ts":1}])").error().message,
      HasSubstr("1 begins without an end (as k)"));
  EXPECT_THAT(
      testing::ReadProfile(R"([{"ph":"B","cat":"kernel","name":"k","ts":-1}])").error().message,
      HasSubstr("negative time"));
}

TEST(KinetoVariantsTest, BeforeKinetoProcessesSayWhatEventsAre) {
  const std::string text = R"([
{"name":"aten::mm","ph":"X","ts":10,"dur":30,"tid":1,"pid":"CPU functions","args":{}},
{"name":"aten::mm","ph":"s","ts":10,"tid":1,"pid":"CPU functions","id":0,"cat":"cpu_to_cuda"},
{"name":"volta_sgemm_64x64_nn","ph":"f","ts":20,"tid":0,"pid":"CUDA functions","id":0},
{"name":"volta_sgemm_64x64_nn","ph":"X","ts":20,"dur":15,"tid":0,"pid":"CUDA functions"},
{"name":"volta_sgemm_64x64_nn","ph":"X","ts":22,"dur":13,"tid":1,"pid":"CUDA functions"}])";
  const Activity activity = SummaryOf(text);
  ASSERT_EQ(activity.ranks.size(), 2u);  // A thread is a device.
  EXPECT_THAT(activity.ranks[0].part_ps, ElementsAre(15'000'000, 0, 0, 15'000'000));
  EXPECT_THAT(activity.ranks[1].part_ps, ElementsAre(13'000'000, 0, 0, 17'000'000));
}

TEST(KinetoVariantsTest, TimesInAnyForm) {
  // Texts, nanoseconds as the unit of display (which changes nothing), times since 1970.
  const KinetoTrace trace = testing::ReadProfile(R"({"displayTimeUnit":"ns","traceEvents":[
{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":"1695835542514261.125","dur":"2.5"},
{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":1695835542514250,"dur":1e1},
{"ph":"X","cat":"kernel","name":"c","pid":0,"tid":7,"ts":NaN,"dur":2},
{"ph":"X","cat":"kernel","name":"d","pid":0,"tid":7,"ts":5,"dur":null}]})")
                                .value();
  ASSERT_EQ(trace.device.size(), 2u);
  EXPECT_EQ(trace.device[0].start_ns, 1695835542514261125);
  EXPECT_EQ(trace.device[0].end_ns - trace.device[0].start_ns, 2500);
  EXPECT_EQ(trace.device[1].end_ns - trace.device[1].start_ns, 10'000);
  EXPECT_THAT(trace.counts.skipped, ElementsAre(Pair("without begin or duration", 2)));
  // Out of order in the file, in order in the trace.
  const Trace imported = ImportKineto({&trace, 1}, {}).value();
  EXPECT_EQ(imported.operators(static_cast<int>(imported.op(0))), "a");
  EXPECT_EQ(imported.iteration_ps(), 13'625'000);
}

TEST(KinetoVariantsTest, AGraphsKernelsHaveOneLaunch) {
  const KinetoTrace trace =
      testing::ReadProfile(R"({"baseTimeNanoseconds":1700000000000000000,"traceEvents":[
{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":9,"tid":1,"ts":1,"dur":2,
 "args":{"External id":5,"correlation":40}},
{"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":5,"dur":10,
 "args":{"External id":5,"correlation":40,"stream":7,"device":0,"graph id":3,"graph node id":1}},
{"ph":"X","cat":"kernel","name":"relu","pid":0,"tid":8,"ts":6,"dur":10,
 "args":{"External id":5,"correlation":40,"stream":8,"device":0,"graph node id":2}}]})")
          .value();
  EXPECT_EQ(trace.device[0].call, 0u);
  EXPECT_EQ(trace.device[1].call, 0u);
  EXPECT_EQ(trace.base_ns, 1700000000000000000);
}

TEST(KinetoVariantsTest, CorrelationZeroOfManyIsNone) {
  const auto file = [](int kernels) {
    std::string text = R"([{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":1,"dur":1,
"args":{"correlation":0}})";
    for (int i = 0; i < kernels; ++i) {
      text += R"(,{"ph":"X","cat":"kernel","name":"k","ts":)" + std::to_string(5 + 10 * i) +
              R"(,"dur":2,"args":{"correlation":0}})";
    }
    return testing::ReadProfile(text + "]").value();
  };
  EXPECT_EQ(file(1).device[0].call, 0u);
  EXPECT_EQ(file(2).device[0].call, kNoIndex);
}

TEST(KinetoVariantsTest, AmdAndIntel) {
  const Activity amd = SummaryOf(R"([
{"ph":"X","cat":"hip_runtime","name":"hipLaunchKernel","pid":9,"tid":1,"ts":0,"dur":1,
 "args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"Cijk_Ailk_Bljk_HHS_BH_MT128x128x16","pid":2,"tid":0,"ts":3,"dur":5,
 "args":{"correlation":1,"device":2,"stream":0}},
{"ph":"X","cat":"kernel","name":"__amd_rocclr_fillBufferAligned.kd","pid":2,"tid":0,"ts":8,"dur":1,
 "args":{"device":2,"stream":0}},
{"ph":"X","cat":"gpu_memcpy","name":"CopyHostToDevice","pid":2,"tid":0,"ts":10,"dur":4,
 "args":{"device":2,"stream":0,"bytes":64}}])");
  EXPECT_DOUBLE_EQ(BusyOf(amd, OperatorClass::kGemm), 5e-6);
  EXPECT_DOUBLE_EQ(BusyOf(amd, OperatorClass::kMemset), 1e-6);
  EXPECT_DOUBLE_EQ(BusyOf(amd, OperatorClass::kH2D), 4e-6);
  const KinetoTrace intel = testing::ReadProfile(R"([
{"ph":"X","cat":"xpu_runtime","name":"urEnqueueKernelLaunch","pid":9,"tid":1,"ts":0,"dur":1,
 "args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"gemm_kernel","pid":0,"tid":1,"ts":3,"dur":5,
 "args":{"correlation":1,"device":0,"queue":1}}])")
                                .value();
  EXPECT_EQ(intel.device[0].call, 0u);
}

TEST(KinetoVariantsTest, CollectivesSayWhatTheyAre) {
  const auto kernel = [](int ts, const std::string& name, const std::string& more) {
    return R"({"ph":"X","cat":"kernel","name":")" + name + R"(","pid":0,"tid":20,"ts":)" +
           std::to_string(ts) + R"(,"dur":10,"args":{"stream":20,"device":0)" + more + "}}";
  };
  const std::string text =
      "[" +
      kernel(0, "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
             R"(,"Collective name":"_reduce_scatter_base","In msg nelems":8,"Out msg nelems":2,
                "dtype":"Float","Group size":4,"Process Group Name":"0")") +
      "," +
      kernel(20, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)",
             R"(,"Collective name":"all_to_allv")") +
      "," +
      kernel(40, "ncclDevKernel_SendRecv()",
             R"(,"Collective name":"send","Dst Rank":1,"Process Group Ranks":"[4, 6]")") +
      "," +
      kernel(60, "ncclDevKernel_SendRecv()",
             R"(,"Collective name":"recv","Src Rank":6,"Process Group Ranks":"[4, 6]")") +
      "," + kernel(80, "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "") + "]";
  const KinetoTrace trace = testing::ReadProfile(text).value();
  EXPECT_EQ(trace.device[0].bytes, 32);
  EXPECT_EQ(trace.device[2].partner, 6);  // The second of the group.
  EXPECT_EQ(trace.device[3].partner, 6);  // Not that many in the group: a global rank.
  const Trace imported = ImportKineto({&trace, 1}, {}).value();
  std::vector<std::string> kinds;
  for (const std::uint32_t kind : imported.kind()) {
    kinds.push_back(imported.kinds(static_cast<int>(kind)));
  }
  EXPECT_THAT(kinds, ElementsAre("collective", "collective", "send", "recv", "collective"));
  const Activity activity = SummarizeActivity(imported);
  for (const auto& [operator_class, us] :
       {std::pair{OperatorClass::kReduceScatter, 10}, std::pair{OperatorClass::kAllToAll, 10},
        std::pair{OperatorClass::kSendRecv, 20}, std::pair{OperatorClass::kAllReduce, 10}}) {
    EXPECT_DOUBLE_EQ(BusyOf(activity, operator_class), us * 1e-6) << Name(operator_class);
  }
}

TEST(KinetoVariantsTest, DevicesOfOneFileAreRanks) {
  const auto kernel = [](const std::string& pid, const std::string& device, int dur) {
    return R"({"ph":"X","cat":"kernel","name":"sgemm","pid":)" + pid + R"(,"tid":7,"ts":0,"dur":)" +
           std::to_string(dur) + R"(,"args":{"stream":7)" + device + "}}";
  };
  for (const std::string& text :
       {"[" + kernel("0", R"(,"device":0)", 10) + "," + kernel("1", R"(,"device":1)", 20) + "]",
        "[" + kernel(R"("GPU 0")", "", 10) + "," + kernel(R"("GPU 1")", "", 20) + "]",
        "[" + kernel(R"("first")", "", 10) + "," + kernel(R"("second")", "", 20) + "]"}) {
    const Activity activity = SummaryOf(text);
    ASSERT_EQ(activity.ranks.size(), 2u) << text;
    EXPECT_THAT(activity.ranks[0].part_ps, ElementsAre(10'000'000, 0, 0, 10'000'000)) << text;
    EXPECT_THAT(activity.ranks[1].part_ps, ElementsAre(20'000'000, 0, 0, 0)) << text;
  }
  // A device that only a wait names is none.
  const Activity one = SummaryOf(
      "[" + kernel("0", R"(,"device":0)", 10) +
      R"(,{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":3,"tid":7,"ts":5,"dur":1,
          "args":{"stream":7,"wait_on_stream":20}}])");
  EXPECT_EQ(one.ranks.size(), 1u);
}

TEST(KinetoVariantsTest, ASecondFileOfARankIsAnError) {
  std::vector<KinetoTrace> files;
  for (int i = 0; i < 2; ++i) {
    files.push_back(testing::ReadProfile(R"({"distributedInfo":{"rank":3},
        "traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1}]})")
                        .value());
  }
  EXPECT_EQ(ImportKineto(files, {}).error().message, "f: is a second file of rank 3");
}

TEST(KinetoVariantsTest, OnTheHostStepsAndCollectivesCountToo) {
  std::string text = "[";
  for (int step = 0; step < 3; ++step) {
    const std::string begin = std::to_string(1000 * step);
    text +=
        (step == 0 ? "" : ",") +
        std::string(R"({"ph":"X","cat":"user_annotation","pid":1,"tid":1,"name":"ProfilerStep#)") +
        std::to_string(step) + R"(","ts":)" + begin + R"(,"dur":)" +
        std::to_string(500 + 10 * step) +
        R"(},{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":)" + begin +
        R"(,"dur":100},{"ph":"X","cat":"cpu_op","name":"c10d::allreduce_","pid":1,"tid":1,"ts":)" +
        std::to_string(1000 * step + 200) + R"(,"dur":50})";
  }
  const Activity activity = SummaryOf(text + "]");
  EXPECT_THAT(activity.ranks[0].part_ps, ElementsAre(100'000'000, 50'000'000, 0, 360'000'000));
  // Where its process group says what it does, the operator has only asked for it.
  const Activity marked = SummaryOf(
      R"([{"ph":"X","cat":"cpu_op","name":"c10d::allreduce_","pid":1,"tid":1,"ts":0,"dur":50},
          {"ph":"X","cat":"user_annotation","name":"gloo:all_reduce","pid":1,"tid":2,"ts":10,
           "dur":90}])");
  EXPECT_EQ(marked.tasks, 1);
  EXPECT_EQ(marked.ranks[0].part_ps[1], 90'000'000);
}

TEST(KinetoVariantsTest, MarksAloneAreTheTasks) {
  EXPECT_EQ(SummaryOf(R"([{"ph":"X","cat":"user_annotation","name":"load","ts":0,"dur":5},
                          {"ph":"X","cat":"user_annotation","name":"in it","ts":1,"dur":2}])")
                .tasks,
            1);
}

}  // namespace
}  // namespace twinstep
