// Two processes on one host, a GPU each: their plans train as the plain plan does, and the end of
// one is told by the other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/exec/cuda/gpu_training.h"
#include "tests/exec/cuda/has_gpu.h"
#include "tests/exec/cuda/two_gpu_plans.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

constexpr int kSteps = 5;

// What `work` writes, in a process of its own: CUDA does not outlive a fork.
class Child {
 public:
  explicit Child(const std::function<std::string()>& work) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    id_ = fork();
    if (id_ == 0) {
      close(ends[0]);
      const std::string text = work();
      for (std::size_t at = 0; at < text.size();) {
        const ssize_t written = write(ends[1], text.data() + at, text.size() - at);
        if (written <= 0) break;
        at += static_cast<std::size_t>(written);
      }
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    close(ends[1]);
    from_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string Result() {
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(from_, buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    close(from_);
    int status = 0;
    waitpid(id_, &status, 0);
    EXPECT_EQ(status, 0) << text;
    return text;
  }

 private:
  pid_t id_ = -1;
  int from_ = -1;
};

std::string Bytes(const std::vector<double>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

std::vector<double> Doubles(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  return numbers;
}

std::shared_ptr<Processes> JoinOrDie(int rank) {
  const auto joined = Processes::Join({.rank = rank,
                                       .size = 2,
                                       .local_rank = rank,
                                       .address = "127.0.0.1",
                                       .port = 20000 + static_cast<int>(getppid()) % 10000},
                                      60);
  if (!joined.ok()) {
    std::fprintf(stderr, "%s\n", joined.error().message.c_str());
    std::abort();
  }
  return joined.value();
}

bool HasTwoGpus() {
  return Child([] { return std::string(GpuCount() >= 2 ? "yes" : "no"); }).Result() == "yes";
}

// Losses of the plans, one after the other.
std::string TrainAll(const Model& model, const std::vector<PlanCase>& cases,
                     const std::shared_ptr<Processes>& processes) {
  std::vector<double> losses;
  for (const PlanCase& test_case : cases) {
    const Plan plan = PlanOf(test_case, SmallPlan(1, 1, 1, 1), 96 << 10);
    for (const bool late_lanes : LateLanesOf(plan)) {
      const CudaOptions options{.processes = processes, .late_lanes = late_lanes};
      const Trained trained = Train(model, plan, OnGpu(options), kSteps);
      losses.insert(losses.end(), trained.losses.begin(), trained.losses.end());
    }
  }
  if (processes != nullptr) {
    EXPECT_TRUE(processes->ShareFirst({}).ok());  // Nobody leaves before the other is done.
  }
  return Bytes(losses);
}

void ExpectToTrainAsInOneProcess(const char* name, const std::vector<PlanCase>& cases) {
  if (!HasTwoGpus()) GTEST_SKIP() << "no two GPUs";
  const Model model = SmallModel(name, FP64);
  const auto alone = Doubles(Child([&] { return TrainAll(model, cases, nullptr); }).Result());
  ASSERT_GE(alone.size(), cases.size() * kSteps);
  Child first([&] { return TrainAll(model, cases, JoinOrDie(0)); });
  Child second([&] { return TrainAll(model, cases, JoinOrDie(1)); });
  const std::vector<double> of_first = Doubles(first.Result());
  EXPECT_EQ(Doubles(second.Result()), of_first);
  EXPECT_LE(LargestDifference(of_first, alone), 1e-9);
}

TEST(TwoProcessesTest, PlansTrainAsInOneProcess) {
  ExpectToTrainAsInOneProcess("llama-gqa", TwoGpuPlans());
}

// Its embeddings are tied: the first stage and the last add up their gradients.
TEST(TwoProcessesTest, TiedEmbeddingsTrainAsInOneProcess) {
  std::vector<PlanCase> cases = TwoGpuPlans();
  std::erase_if(cases, [](const PlanCase& test_case) {
    return test_case.label != "pipeline" && test_case.label != "tensor";
  });
  ExpectToTrainAsInOneProcess("gpt", cases);
}

TEST(TwoProcessesTest, TensorsAreWholeInBoth) {
  if (!HasTwoGpus()) GTEST_SKIP() << "no two GPUs";
  // Untied: nothing is summed across stages, so that `deterministic` is allowed.
  const Model model = SmallModel("llama", BF16);
  Plan plan = SmallPlan(1, 1, 2, 1);
  plan.set_virtual_stages(2);
  const auto tensors = [&](const CudaOptions& options) {
    std::string bytes;
    for (const LogicalTensor& tensor : Train(model, plan, OnGpu(options), 2).tensors) {
      bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    }
    if (options.processes != nullptr) {
      EXPECT_TRUE(options.processes->ShareFirst({}).ok());
    }
    return bytes;
  };
  Child first([&] { return tensors({.processes = JoinOrDie(0), .deterministic = true}); });
  Child second([&] { return tensors({.processes = JoinOrDie(1), .deterministic = true}); });
  const std::string of_first = first.Result();
  EXPECT_TRUE(second.Result() == of_first);
  EXPECT_TRUE(Child([&] { return tensors({.deterministic = true}); }).Result() == of_first);
}

TEST(TwoProcessesTest, TheEndOfOneIsToldByTheOther) {
  if (!HasTwoGpus()) GTEST_SKIP() << "no two GPUs";
  const Model model = SmallModel("llama", FP64);
  Plan plan = SmallPlan(1, 1, 1, 2);
  const auto begin = std::chrono::steady_clock::now();
  Child first([&] {
    const auto processes = JoinOrDie(0);
    TrainingRun run(model, plan, OnGpu({.processes = processes}));
    const Status trained = run.Train(100000);
    return trained.ok() ? std::string("done") : trained.error().message;
  });
  Child second([&] {
    const auto processes = JoinOrDie(1);
    TrainingRun run(model, plan, OnGpu({.processes = processes}));
    EXPECT_TRUE(run.Train(3).ok());
    _exit(0);  // Says nothing to anyone.
    return std::string();
  });
  EXPECT_EQ(second.Result(), "");
  EXPECT_THAT(first.Result(), testing::HasSubstr("process 0: process 1 has ended"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(TwoProcessesTest, SumsAcrossProcessesAreNotDeterministic) {
  if (!HasTwoGpus()) GTEST_SKIP() << "no two GPUs";
  const auto refused = [](int rank) {
    return [rank] {
      const auto processes = JoinOrDie(rank);
      const Model model = SmallModel("llama", FP64);
      const Plan plan = SmallPlan(1, 1, 1, 2);
      const ResolvedPlan resolved = ResolveOrDie(model, plan);
      const TaskGraph graph = LowerOrDie(model, resolved);
      const ArenaPlan arena = PlanArena(graph);
      const auto backend = OnGpu({.processes = processes, .deterministic = true}).make_backend();
      const auto executor = Executor::Create(graph, arena, resolved, backend.get(), {});
      return executor.ok() ? std::string("ran") : executor.error().message;
    };
  };
  Child first(refused(0)), second(refused(1));
  EXPECT_THAT(first.Result(), testing::HasSubstr("not in rank order"));
  EXPECT_THAT(second.Result(), testing::HasSubstr("not in rank order"));
}

}  // namespace
}  // namespace twinstep
