#include "exec/profile/gpu_interference.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "sim/cost/graph_costs.h"
#include "tests/cost/cost_graph.h"
#include "tests/cost/test_clusters.h"

namespace twinstep {
namespace {

// Of two GPUs that take from each other half of what copies both ways have, and nothing one way.
Profile TwoGpus() {
  Profile profile;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      copies { direction: H2D bytes: 1000000 alone_s: 20e-6 both_ways_s: 25e-6 }
      copies { direction: D2H bytes: 1000000 alone_s: 20e-6 both_ways_s: 25e-6 }
      host_copies { up: 1 bytes: 1000000 h2d_s: 20e-6 }
      host_copies { down: 1 bytes: 1000000 d2h_s: 20e-6 }
      host_copies { up: 2 bytes: 1000000 h2d_s: 20e-6 }
      host_copies { down: 2 bytes: 1000000 d2h_s: 20e-6 }
      host_copies { up: 2 down: 2 bytes: 1000000 h2d_s: 75e-6 d2h_s: 25e-6 })",
                                                            &profile));
  *profile.mutable_measured_on() = PlainCluster();
  profile.mutable_measured_on()->mutable_node()->set_gpus(2);
  return profile;
}

GpuSamples Samples(std::uint32_t copying, double both_s) {
  GpuSamples samples;
  samples.gpus = 2;
  samples.h2d =
      samples.d2h = {.alone_s = 20e-6, .beside_compute_s = 22e-6, .gpus_beside_compute = copying};
  samples.h2d_both = samples.d2h_both = {
      .alone_s = 25e-6, .beside_compute_s = both_s, .gpus_beside_compute = copying};
  return samples;
}

// Copies take a fifth longer beside computation, whether one GPU copied then or both.
TEST(GpuInterference, CopiesBesideComputationAreOfAllGpus) {
  for (const GpuSamples& samples : {Samples(1, 30e-6), Samples(2, 60e-6)}) {
    Profile profile = TwoGpus();
    *profile.mutable_interference() = InterferenceOf(profile, samples);
    EXPECT_DOUBLE_EQ(profile.interference().copy_beside_compute(), 2.4);
    EXPECT_DOUBLE_EQ(profile.interference().h2d_beside_compute(), 1.1);
    EXPECT_DOUBLE_EQ(profile.interference().d2h_beside_compute(), 1.1);
    CostGraph graph(2);
    const Result<GraphCosts> costs =
        ComputeCosts(graph.graph(), Model(), profile.measured_on(), &profile);
    ASSERT_TRUE(costs.ok()) << costs.error().message;
    EXPECT_DOUBLE_EQ(costs.value().interference.copy_beside_compute(), 1.2);
  }
}

}  // namespace
}  // namespace twinstep
