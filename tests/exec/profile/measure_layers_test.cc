// Layers on GPUs that differ, on CPU backends in their place which say when tasks of those would
// have run.
#include "exec/profile/measure_layers.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_backend.h"
#include "exec/profile/build_profile.h"
#include "exec/profile/gpu_measurement.h"
#include "sim/textproto/text_file.h"
#include "tests/exec/profile/small_gpus.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// Of the GPUs in their order: 1 on average.
constexpr double kSlowness[] = {0.75, 1.25};
constexpr std::int64_t kSlot_ns = 10'000'000;

// One task after the other; those of one operator and size take equally long.
class TwoSpeeds : public CpuBackend {
 public:
  explicit TwoSpeeds(int first_gpu) : CpuBackend({.threads = 1}), first_gpu_(first_gpu) {}

  Status Prepare(std::shared_ptr<const Program> program) override {
    graph_ = program->graph;
    return CpuBackend::Prepare(std::move(program));
  }
  TaskTime Time(TaskId id) const override {
    const Task& task = graph_->tasks[id];
    const auto gpu = static_cast<std::size_t>(first_gpu_) + task.rank;
    const double alone_ns =
        1000.0 * (1 + static_cast<double>(graph_->shapes[task.shape].op)) * kSlowness[gpu];
    const std::int64_t start_ns = kSlot_ns * id;
    return {.start_ns = start_ns, .end_ns = start_ns + static_cast<std::int64_t>(alone_ns)};
  }

 private:
  const int first_gpu_;
  const TaskGraph* graph_ = nullptr;
};

class MeasureLayersTest : public testing::Test {
 protected:
  // The entries of what a plan's layers bring on two GPUs.
  Profile Measure(const Plan& plan) {
    const ResolvedPlan resolved = ResolvePlan(model_, cluster_, plan, 2).value();
    const std::vector<GpuPlan> plans = {{&cluster_, &resolved}};
    const GpuMeasureOptions options{
        .make_backend = [this](PairRule /*most*/,
                               int first_gpu) -> Result<std::unique_ptr<Backend>> {
          first_gpus_.insert(first_gpu);
          return std::unique_ptr<Backend>(std::make_unique<TwoSpeeds>(first_gpu));
        },
        .seconds = 0.05,
        .warm_up_s = 0.01,
        .sizes = {.warm_up_s = 0.01, .layers_s = 0.01, .pause_s = 0},
        .phase_times = &times_};
    GpuMeasurement gpu(model_, plans, options);
    EXPECT_TRUE(gpu.LowerAll().ok());
    const Status done = MeasureLayersAlone(&gpu);
    EXPECT_TRUE(done.ok()) << done.error().message;
    Profile profile = BuildEntries(gpu.samples().primitives);
    profile.mutable_measured_on()->mutable_node()->set_gpus(gpu.gpus());
    return profile;
  }

  static void ExpectMeansAndSlowness(const Profile& profile) {
    EXPECT_GT(profile.operators_size(), 10);
    for (const OperatorSample& sample : profile.operators()) {
      EXPECT_THAT(sample.gpu_slowness(), ElementsAre(0.75, 1.25)) << sample.op();
    }
  }

  const Model model_ = SmallModel("llama", FP32);
  const Cluster cluster_ = SmallGpus(2);
  std::set<int> first_gpus_;
  PhaseTimes times_;
};

TEST_F(MeasureLayersTest, LayersOfOneRankRunOnAllGpus) {
  const Profile profile = Measure(SmallPlan(1, 1, 2, 1));
  ExpectMeansAndSlowness(profile);
  EXPECT_EQ(first_gpus_, (std::set<int>{0, 1}));
  // Each entry is the mean of both, whichever of them was looked at.
  for (const OperatorSample& sample : profile.operators()) {
    const double of_op = sample.median_s() * 1e6;
    EXPECT_NEAR(of_op, std::round(of_op), 1e-3) << sample.op();
  }
  const auto read = ParseText<Profile>(ProfileText(profile), "profile.textproto");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(read.value().message, profile));
}

TEST_F(MeasureLayersTest, LayersOfSeveralRanksTellTheSame) {
  ExpectMeansAndSlowness(Measure(SmallPlan(1, 1, 1, 2)));
  EXPECT_EQ(first_gpus_, (std::set<int>{0}));
}

TEST_F(MeasureLayersTest, ProfilesOfOtherGpusDoNotTellHowTheseDiffer) {
  Profile earlier = Measure(SmallPlan(1, 1, 2, 1));
  Profile more;
  more.mutable_measured_on()->mutable_node()->set_gpus(1);
  Profile same = earlier;
  ASSERT_TRUE(MergeProfile(earlier, &same).ok());
  ExpectMeansAndSlowness(same);
  ASSERT_TRUE(MergeProfile(more, &earlier).ok());
  for (const OperatorSample& sample : earlier.operators()) {
    EXPECT_THAT(sample.gpu_slowness(), SizeIs(0));
  }
}

}  // namespace
}  // namespace twinstep
