#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw_specs/find_cluster.h"
#include "hw_specs/profile.pb.h"
#include "hw_specs/validate_cluster.h"
#include "hw_specs/validate_profile.h"
#include "sim/textproto/set_field.h"
#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::StartsWith;

TEST(HwSpecsTest, EveryClusterIsValidAndBearsItsName) {
  for (const std::string& name : ListClusters()) {
    const auto cluster = FindCluster(name);
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    EXPECT_EQ(cluster.value().name(), name);
    EXPECT_NE(cluster.value().description(), "") << name;
  }
}

TEST(HwSpecsTest, HasTheClustersOfThePapers) {
  EXPECT_THAT(ListClusters(), IsSupersetOf({"4x3090", "4xa100", "dgx-a100", "jean-zay-a100", "h800",
                                            "dgx-h100", "h200", "h200-x2", "dgx2-v100", "b200"}));
}

TEST(HwSpecsTest, H800IsTheClusterOfThePaper) {
  const Cluster h800 = FindCluster("h800").value();
  EXPECT_EQ(h800.nodes() * h800.node().gpus(), 256);
  EXPECT_EQ(h800.node().nic().count(), 8);
  EXPECT_EQ(h800.node().nic().bytes_per_s(), 100e9 / 8);
  EXPECT_EQ(h800.node().host().memory_bytes(), std::int64_t{1} << 40);
  EXPECT_EQ(h800.gpu().bf16_flops_per_s(), 989e12);  // Of the paper's MFU.
  EXPECT_EQ(h800.gpu_adam_params_per_s(), 53.4e9);
}

TEST(FindClusterTest, UnknownNameGivesTheClosest) {
  const auto unknown = FindCluster("h80");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message,
              AllOf(HasSubstr("no cluster 'h80'"), HasSubstr("did you mean h800")));
  EXPECT_TRUE(FindCluster("4xA100").ok());
}

std::string Problems(const std::string& path, const std::string& value) {
  Cluster cluster = FindCluster("h800").value();
  const Status set = SetField(&cluster, path, value);
  EXPECT_TRUE(set.ok());
  const Status status = ValidateCluster(cluster);
  return status.ok() ? "" : status.error().message;
}

TEST(ValidateClusterTest, FindsWhatCannotBe) {
  EXPECT_EQ(Problems("nodes", "4"), "");
  EXPECT_THAT(Problems("nodes", "0"), HasSubstr("cluster 'h800': nodes: is missing or 0"));
  EXPECT_THAT(Problems("node.pcie.h2d_bytes_per_s", "0"), HasSubstr(": node.pcie.h2d_bytes"));
  EXPECT_THAT(Problems("gpu.gemm_max_efficiency", "1.1"), HasSubstr("1.1 is not between"));
  EXPECT_THAT(Problems("gpu.interference.compute_beside_copy", "0.9"), HasSubstr("0.9 is not"));
  EXPECT_EQ(Problems("gpu.interference.compute_beside_copy", "0"), "");
  EXPECT_THAT(Problems("node.host.core_bytes_per_s", "1"), HasSubstr("1 is not between"));
  EXPECT_THAT(Problems("node.pcie.pageable_d2h_bytes_per_s", "1"), HasSubstr("1 is not between"));
  EXPECT_THAT(Problems("node.nic.count", "0"), HasSubstr("32 nodes need a network"));
  EXPECT_THAT(Problems("node.pcie.gpus_per_uplink", "3"), HasSubstr("3 does not divide the 8"));
  EXPECT_THAT(Problems("gpu.runtime_overhead_bytes", "80GiB"), HasSubstr("leaves nothing"));
  EXPECT_THAT(Problems("gpu.kernel_launch_s", "-1"), HasSubstr(": gpu.kernel_launch_s: "));
  EXPECT_THAT(Problems("gpu.memory_bytes", "9e18"), HasSubstr(": gpu.memory_bytes: "));
}

TEST(ValidateProfileTest, NamesTheEntryAndItsLine) {
  const auto parsed = ParseText<Profile>(
      "name: 'p'\noperators { op: 'gemm_forward' median_s: 1e-3 dtype: 'bf16' }\n"
      "operators { op: 'gemm_dgrad' median_s: 0 }\n"
      "copies { bytes: -4 direction: H2D alone_s: 1 }\n"
      "collectives { op: 'all_reduce' group_size: 2 bytes: 4 median_s: nan }\n",
      "f");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Status status = ValidateProfile(parsed.value().message, parsed.value().source);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(
      status.error().message,
      AllOf(HasSubstr("f:3:30: operators[1].median_s: is no time between 1e-12 and 1e5 seconds"),
            HasSubstr("f:4:10: copies[0].bytes: -4 is not between 0 and 1e+24"),
            HasSubstr("f:5:55: collectives[0].median_s: nan is not between"),
            testing::Not(HasSubstr("operators[0]"))));
}

// Shorter than what is simulated: it would count as none.
TEST(ValidateProfileTest, NoTimeIsShorterThanAPicosecond) {
  const auto is_valid = [](const std::string& seconds) {
    const auto parsed =
        ParseText<Profile>("copies { bytes: 4 direction: H2D alone_s: " + seconds + " }", "f");
    return ValidateProfile(parsed.value().message, parsed.value().source).ok();
  };
  EXPECT_TRUE(is_valid("1e-12"));
  EXPECT_FALSE(is_valid("0.9e-12"));
  EXPECT_FALSE(is_valid("1e-300"));
}

TEST(ValidateProfileTest, HostCopiesHaveTheTimesOfWhatCopies) {
  const auto problem = [](const std::string& sample) {
    const auto parsed = ParseText<Profile>("host_copies { bytes: 4 " + sample + " }", "f");
    const Status status = ValidateProfile(parsed.value().message, parsed.value().source);
    return status.ok() ? "none" : status.error().message;
  };
  EXPECT_EQ(problem("up: 1 down: 2 h2d_s: 1 d2h_s: 1"), "none");
  EXPECT_EQ(problem("down: 2 d2h_s: 1"), "none");
  EXPECT_THAT(problem("up: 1 down: 2 h2d_s: 1"), HasSubstr("host_copies[0].d2h_s: is no time"));
  EXPECT_THAT(problem("up: 1 h2d_s: 1 d2h_s: 1"), HasSubstr("d2h_s: is given where none copy so"));
  EXPECT_THAT(problem(""), HasSubstr("host_copies[0].up: is 0, and so is down"));
  EXPECT_THAT(problem("up: 1025 h2d_s: 1"), HasSubstr("host_copies[0].up: is not in [0, 1024]"));
  EXPECT_THAT(problem("up: -1 down: 1 d2h_s: 1"), HasSubstr("host_copies[0].up: is not in [0,"));
  EXPECT_THAT(problem("up: 1 down: -2 h2d_s: 1"), HasSubstr("host_copies[0].down: is not in [0,"));
}

// Measured until nothing read it.
TEST(ValidateProfileTest, ProfilesWithADroppedFieldAreRead) {
  const auto parsed = ParseText<Profile>(
      "copies { direction: H2D bytes: 4 alone_s: 1 beside_compute_s: 2 busy_s: 3 }", "f");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().message.copies(0).busy_s(), 3);
  EXPECT_TRUE(ValidateProfile(parsed.value().message, parsed.value().source).ok());
}

TEST(ValidateProfileTest, PartsOfPairsNeedAProfileThatTellsThem) {
  const auto problem = [](const std::string& text) -> std::string {
    const auto parsed = ParseText<Profile>(text, "f");
    if (!parsed.ok()) return parsed.error().message;
    const Status status = ValidateProfile(parsed.value().message, parsed.value().source);
    return status.ok() ? "" : status.error().message;
  };
  const std::string sum = "operators { op: 'add' median_s: 1 fusion: WITH_PREVIOUS dtype: 'bf16' }";
  EXPECT_EQ(problem(sum + " fused_pairs: ALL_PAIRS"), "");
  EXPECT_THAT(problem(sum),
              HasSubstr("f:1:35: operators[0].fusion: is of a profile without fused_pairs"));
  EXPECT_THAT(problem("operators { op: 'add' median_s: 1 fusion: 9 } fused_pairs: ALL_PAIRS"),
              HasSubstr("operators[0].fusion: has no such value"));
  EXPECT_THAT(problem("fused_pairs: 9"), HasSubstr("fused_pairs: has no such value"));
  EXPECT_THAT(problem("fused_pairs: SOME"), HasSubstr("SOME"));
}

TEST(ValidateProfileTest, ChecksTheMemoryOfModules) {
  const auto parsed = ParseText<Profile>(
      "operator_memory { op: 'gemm_forward' phase: 'forward' intra_peak_bytes: 8 "
      "workspace_bytes: 8 }\n"
      "operator_memory { op: 'gemm_forward' intra_peak_bytes: 8 }\n"
      "operator_memory { op: 'gemm_forward' phase: 'forward' workspace_bytes: 8 }\n",
      "f");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Status status = ValidateProfile(parsed.value().message, parsed.value().source);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(
      status.error().message,
      AllOf(HasSubstr("operator_memory[1].phase: is missing"),
            HasSubstr("f:3:55: operator_memory[2].workspace_bytes: is more than intra_peak_bytes"),
            testing::Not(HasSubstr("operator_memory[0]"))));
}

std::string ProfileProblem(const std::string& text) {
  const auto parsed = ParseText<Profile>(text, "f");
  if (!parsed.ok()) return parsed.error().message;
  const Status status = ValidateProfile(parsed.value().message, parsed.value().source);
  return status.ok() ? "none" : status.error().message;
}

TEST(ValidateProfileTest, NamesThatNothingHasAreRefused) {
  const auto of_operator = [](const std::string& op, const std::string& dtype) {
    return ProfileProblem("operators { op: '" + op + "' dtype: '" + dtype + "' median_s: 1 }");
  };
  EXPECT_EQ(of_operator("gemm_forward", "bf16"), "none");
  EXPECT_THAT(of_operator("gemm_forwrd", "bf16"),
              StartsWith("f:1:13: operators[0].op: 'gemm_forwrd' is no operation (did you mean "
                         "gemm_forward"));
  EXPECT_EQ(of_operator("", "bf16"), "f:1:13: operators[0].op: is missing");
  EXPECT_EQ(of_operator("gemm_forward", "bf61"),
            "f:1:32: operators[0].dtype: 'bf61' is no type of numbers");
  EXPECT_EQ(of_operator("gemm_forward", ""), "f:1:32: operators[0].dtype: is missing");
  EXPECT_THAT(ProfileProblem("collectives { op: 'allreduce' group_size: 2 bytes: 4 median_s: 1 }"),
              StartsWith("f:1:15: collectives[0].op: 'allreduce' is no operation (did you mean "
                         "all_reduce"));
  EXPECT_THAT(ProfileProblem("operator_memory { op: 'gemm_forward' phase: 'forwards' }"),
              StartsWith("f:1:38: operator_memory[0].phase: 'forwards' is no phase (did you mean "
                         "forward"));
}

TEST(ValidateProfileTest, APrimitiveIsMeasuredOnce) {
  const std::string gemm = "operators { op: 'gemm_forward' dtype: 'bf16' dims: 8 dims: 4 ";
  EXPECT_EQ(ProfileProblem(gemm + "median_s: 1 }\n" + gemm + "median_s: 3 }"),
            "f:2:1: operators[1]: is of gemm_forward bf16 8 4, and so is operators[0]");
  EXPECT_EQ(ProfileProblem(gemm + "median_s: 1 }\n" + gemm + "median_s: 3 on_host: true }\n" +
                           gemm + "median_s: 3 flags: 1 }\n" + gemm + "dims: 2 median_s: 3 }"),
            "none");
  const std::string copy = "copies { bytes: 4 alone_s: 1 direction: ";
  EXPECT_EQ(ProfileProblem(copy + "H2D }\n" + copy + "D2H }\n" + copy + "H2D }"),
            "f:3:1: copies[2]: is of copy_h2d of 4 bytes, and so is copies[0]");
  // Rates are of one size.
  EXPECT_EQ(
      ProfileProblem("host_copies { up: 2 bytes: 4 h2d_s: 1 }\n"
                     "host_copies { up: 2 down: 2 bytes: 4 h2d_s: 1 d2h_s: 1 }\n"
                     "host_copies { up: 2 bytes: 8 h2d_s: 1 }"),
      "f:3:1: host_copies[2]: is of copies of 2 GPUs up and 0 down, and so is host_copies[0]");
  const std::string sum = "collectives { op: 'all_reduce' group_size: 2 bytes: 4 median_s: 1 ";
  EXPECT_EQ(ProfileProblem(sum + "}\n" + sum + "ranks_per_node: 2 }\n" + sum + "in_place: true }"),
            "none");
  EXPECT_THAT(ProfileProblem(sum + "ranks_per_node: 2 }\n" + sum + "ranks_per_node: 2 }"),
              StartsWith("f:2:1: collectives[1]: is of all_reduce of 4 bytes among 2, and so is "));
}

TEST(ValidateProfileTest, GpusAreSlowOverTheirMean) {
  const auto problem = [](const std::string& slowness) {
    return ProfileProblem(
        "measured_on { node { gpus: 2 } } operators { op: 'gemm_forward' "
        "dtype: 'bf16' median_s: 1 gpu_slowness: " +
        slowness + " }");
  };
  EXPECT_EQ(problem("[0.9, 1.1]"), "none");
  EXPECT_EQ(problem("[0.98888, 1.0112]"), "none");  // As written, with five digits.
  EXPECT_THAT(problem("[0.1, 0.1]"), HasSubstr("operators[0].gpu_slowness: is 0.1 on average"));
  EXPECT_THAT(problem("[10, 10]"), HasSubstr("operators[0].gpu_slowness: is 10 on average"));
  EXPECT_THAT(problem("[1, nan]"), HasSubstr("has a number not between 0.1 and 10"));
  EXPECT_THAT(problem("[1]"), HasSubstr("has not a number for each GPU"));
}

TEST(ValidateProfileTest, NoMoreGpusCopyThanThereAre) {
  const std::string machine = "measured_on { node { gpus: 2 } }\n";
  EXPECT_EQ(ProfileProblem(machine + "host_copies { up: 2 down: 1 bytes: 4 h2d_s: 1 d2h_s: 1 }"),
            "none");
  EXPECT_EQ(ProfileProblem(machine + "host_copies { up: 7 bytes: 4 h2d_s: 1 }"),
            "f:2:15: host_copies[0].up: is more than measured_on.node has gpus");
  EXPECT_EQ(ProfileProblem(machine + "host_copies { down: 3 bytes: 4 d2h_s: 1 }"),
            "f:2:15: host_copies[0].down: is more than measured_on.node has gpus");
}

// What an engine would refuse without a file and a line, or take for nothing.
TEST(ValidateProfileTest, TimesAreNearThoseWithoutOthers) {
  const auto of_operator = [](const std::string& times) {
    return ProfileProblem("operators { op: 'gemm_forward' dtype: 'bf16' " + times + " }");
  };
  EXPECT_EQ(of_operator("median_s: 1e-3 beside_h2d_s: 1e-8 rested_s: 1e2"), "none");
  for (const std::string field :
       {"busy_median_s", "beside_h2d_s", "beside_d2h_s", "beside_copies_s", "beside_collective_s",
        "rested_s", "rested_beside_h2d_s", "rested_beside_d2h_s", "rested_beside_copies_s",
        "lets_in_s"}) {
    for (const std::string seconds : {"0.9e-8", "1.1e2"}) {
      EXPECT_THAT(of_operator("median_s: 1e-3 " + field + ": " + seconds),
                  HasSubstr("f:1:61: operators[0]." + field + ": is more than 1e5 times as long"));
    }
    EXPECT_THAT(of_operator("median_s: 1e-3 " + field + ": 1e-13"),
                HasSubstr("operators[0]." + field + ": is no time between"));
  }
  EXPECT_THAT(of_operator("median_s: 1 rested_s: 1e-4 rested_beside_h2d_s: 1e2"),
              HasSubstr("operators[0].rested_beside_h2d_s: is more than 1e5 times"));
  const std::string sum = "collectives { op: 'all_reduce' group_size: 2 bytes: 4 median_s: 1e-3 ";
  EXPECT_THAT(ProfileProblem(sum + "beside_compute_s: 1.1e2 }"),
              HasSubstr("collectives[0].beside_compute_s: is more than 1e5 times as long"));
  const std::string copy = "copies { direction: H2D bytes: 4 alone_s: 1e-3 ";
  EXPECT_THAT(ProfileProblem(copy + "both_ways_s: 1.1e2 }"),
              HasSubstr("copies[0].both_ways_s: is more than 1e5 times as long"));
}

TEST(ValidateProfileTest, NothingMovesFasterThanIsSimulated) {
  constexpr const char* kProblem = ": is less than its bytes take at 2^50 a second";
  // 2^50 bytes in a second, and in less.
  const std::string bytes = "bytes: 1125899906842624 ";
  EXPECT_EQ(ProfileProblem("copies { direction: D2H " + bytes + "alone_s: 1 }"), "none");
  EXPECT_THAT(ProfileProblem("copies { direction: D2H " + bytes + "alone_s: 0.99 }"),
              HasSubstr(std::string("copies[0].alone_s") + kProblem));
  EXPECT_THAT(ProfileProblem("copies { direction: D2H " + bytes + "alone_s: 1 both_ways_s: .99 }"),
              HasSubstr(std::string("copies[0].both_ways_s") + kProblem));
  EXPECT_THAT(ProfileProblem("host_copies { up: 1 " + bytes + "h2d_s: 0.99 }"),
              HasSubstr(std::string("host_copies[0].h2d_s") + kProblem));
  EXPECT_THAT(
      ProfileProblem("collectives { op: 'send' group_size: 2 " + bytes + "median_s: 0.99 }"),
      HasSubstr(std::string("collectives[0].median_s") + kProblem));
  EXPECT_EQ(ProfileProblem("host_adam_params_per_s_beside_copies: 1e13"), "none");
  EXPECT_THAT(ProfileProblem("host_adam_params_per_s_beside_copies: 1e14"),
              HasSubstr("f:1:1: host_adam_params_per_s_beside_copies: "));
}

TEST(ValidateProfileTest, ClocksHaveABoostToRestFor) {
  // Of GPUs that saved nothing in a short rest.
  EXPECT_EQ(ProfileProblem("clocks { boost_s: 0.04 }"), "none");
  EXPECT_EQ(ProfileProblem("clocks { boost_s: 0.04 boost_per_rest_s: 1e5 }"), "none");
  EXPECT_EQ(ProfileProblem("clocks { boost_per_rest_s: 1.5 }"),
            "f:1:1: clocks.boost_s: is missing, and boost_per_rest_s is of it");
  EXPECT_THAT(ProfileProblem("clocks { boost_s: 0.04 boost_per_rest_s: 1e6 }"),
              HasSubstr("f:1:24: clocks.boost_per_rest_s: "));
}

}  // namespace
}  // namespace twinstep
