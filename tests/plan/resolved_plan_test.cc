#include "sim/plan/resolved_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <typename Message>
Message Text(const std::string& text) {
  auto parsed = ParseText<Message>(text, "test");
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.value().message;
}

Model Llama65B() {
  return Text<Model>(R"(name: "llama-65b" family: LLAMA layers: 80 hidden_size: 8192
                        ffn_hidden_size: 22016 attention_heads: 64 vocab_size: 32000
                        max_sequence_length: 2048)");
}

Cluster H800(std::int64_t nodes = 32) {
  Cluster cluster;
  cluster.set_name("h800");
  cluster.set_nodes(nodes);
  cluster.mutable_node()->set_gpus(8);
  return cluster;
}

// The plan of figure 7 of the paper.
Plan Figure7(const std::string& changes = "") {
  Plan plan = Text<Plan>(R"(tensor_parallel: 2 context_parallel: 2 pipeline_parallel: 8
                            layers_per_stage: 2 global_batch: 256 sequence_length: 8192)");
  plan.MergeFrom(Text<Plan>(changes));
  return plan;
}

Error Refusal(const Plan& plan, std::int64_t gpus = 256, PlanRules rules = {},
              const Model& model = Llama65B()) {
  const auto resolved = ResolvePlan(model, H800(), plan, gpus, rules);
  EXPECT_FALSE(resolved.ok());
  return resolved.ok() ? Error{} : resolved.error();
}

void ExpectImpossible(const Error& error, const std::string& rule, const std::string& part) {
  EXPECT_EQ(error.code, ExitCode::kNo);
  EXPECT_EQ(error.rule, rule);
  EXPECT_THAT(error.message, HasSubstr(part));
}

void ExpectBadValue(const Error& error, const std::string& part) {
  EXPECT_EQ(error.code, ExitCode::kBadInput);
  EXPECT_EQ(error.rule, "plan-value");
  EXPECT_THAT(error.message, HasSubstr(part));
}

TEST(ResolvePlanTest, WritesOutEveryDefault) {
  const auto plan = ResolvePlan(Llama65B(), H800(), Text<Plan>("global_batch: 8"), 8);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const ResolvedPlan& r = plan.value();
  EXPECT_EQ(r.gpus, 8);
  EXPECT_EQ(r.t, 1);
  EXPECT_EQ(r.c, 1);
  EXPECT_EQ(r.p, 1);
  EXPECT_EQ(r.d, 8);
  EXPECT_EQ(r.v, 1);
  EXPECT_EQ(r.l, 80);
  EXPECT_EQ(r.b, 1);
  EXPECT_EQ(r.m, 1);
  EXPECT_EQ(r.sequence_length, 2048);
  EXPECT_EQ(r.rank_order, "tp-cp-dp-pp");
  EXPECT_EQ(r.schedule, ONE_F_ONE_B);
  EXPECT_FALSE(r.sequence_parallel);
  EXPECT_EQ(r.tp_overlap, TP_OVERLAP_NONE);
  EXPECT_FALSE(r.dp_overlap);
  EXPECT_EQ(r.zero_stage, 1);
  EXPECT_EQ(r.recompute, RECOMPUTE_NONE);
  EXPECT_EQ(r.attention, ATTENTION_FLASH);
  EXPECT_EQ(r.offload_ratio, 0);
  EXPECT_THAT(r.warnings, IsEmpty());
}

TEST(ResolvePlanTest, PlanOfFigure7) {
  const auto plan = ResolvePlan(Llama65B(), H800(), Figure7(), 256, {.kuaishou = true});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan.value().v, 5);
  EXPECT_EQ(plan.value().l, 2);
  EXPECT_EQ(plan.value().d, 8);
  EXPECT_EQ(plan.value().m, 32);
  EXPECT_EQ(plan.value().schedule, INTERLEAVED_1F1B);
  EXPECT_TRUE(plan.value().sequence_parallel);
}

TEST(ResolvePlanTest, StagesMayBeGivenEitherWayOrBoth) {
  for (const char* stages : {"virtual_stages: 5", "virtual_stages: 5 layers_per_stage: 2"}) {
    Plan plan = Figure7();
    plan.clear_layers_per_stage();
    plan.MergeFrom(Text<Plan>(stages));
    const auto resolved = ResolvePlan(Llama65B(), H800(), plan, 256);
    ASSERT_TRUE(resolved.ok()) << resolved.error().message;
    EXPECT_EQ(resolved.value().v, 5);
    EXPECT_EQ(resolved.value().l, 2);
  }
}

TEST(ResolvePlanTest, RefusesWhatDoesNotFitTheGpus) {
  ExpectImpossible(Refusal(Figure7(), 264), "gpus-available",
                   "the plan has 264 GPUs, cluster "
                   "'h800' has 256 (32 nodes of 8)");
  ExpectImpossible(Refusal(Figure7(), 250), "gpus-divide",
                   "t c p = 2 x 2 x 8 does not divide 250 GPUs");
  ExpectImpossible(Refusal(Figure7("data_parallel: 4")), "gpus-divide",
                   "on 256 GPUs leaves d = 8, the plan says 4");
}

TEST(ResolvePlanTest, RefusesStagesThatDoNotDivideTheLayers) {
  ExpectImpossible(Refusal(Figure7("layers_per_stage: 3")), "layers-divide",
                   "p l = 8 x 3 does not divide the 80 layers");
  ExpectImpossible(Refusal(Figure7("virtual_stages: 2")), "layers-divide",
                   "p v l = 8 x 2 x 2 is not 80 layers");
  ExpectImpossible(Refusal(Figure7("virtual_stages: 3")), "layers-divide",
                   "p v = 8 x 3 does not divide the 80 layers");
  ExpectImpossible(Refusal(Figure7("pipeline_parallel: 1")), "virtual-stages-need-pipeline",
                   "v = 40");
  ExpectImpossible(Refusal(Figure7("schedule: ONE_F_ONE_B")), "schedule-stages", "v = 5");
  ExpectImpossible(Refusal(Figure7("schedule: GPIPE")), "schedule-stages", "GPIPE");
  ExpectImpossible(Refusal(Figure7("schedule: INTERLEAVED_1F1B layers_per_stage: 10")),
                   "schedule-stages", "v = 1");
}

TEST(ResolvePlanTest, RefusesBatchesThatDoNotSplit) {
  ExpectImpossible(Refusal(Figure7("global_batch: 260")), "batch-divides",
                   "b d = 1 x 8 does not divide the global batch 260");
  ExpectImpossible(Refusal(Figure7("global_batch: 160 micro_batch: 2")), "microbatches-interleaved",
                   "m = B / (b d) = 10 micro-batches");
}

TEST(ResolvePlanTest, RefusesShapesThatDoNotSplit) {
  Model model = Llama65B();
  model.set_attention_heads(33);
  ExpectImpossible(Refusal(Figure7(), 256, {}, model), "heads-divide",
                   "t = 2 does not divide the "
                   "33 attention heads");
  model = Llama65B();
  model.set_kv_heads(1);
  ExpectImpossible(Refusal(Figure7(), 256, {}, model), "kv-heads-divide", "the 1 key");
  model = Llama65B();
  model.set_ffn_hidden_size(22015);
  ExpectImpossible(Refusal(Figure7(), 256, {}, model), "ffn-divide", "22015");
  ExpectImpossible(Refusal(Figure7("sequence_length: 8190")), "sequence-divides",
                   "2 c = 4 does not divide the sequence length 8190");
  Plan odd = Figure7("sequence_length: 8191");
  odd.set_context_parallel(1);
  ExpectImpossible(Refusal(odd), "sequence-divides", "sequence parallelism needs");
  odd.set_sequence_parallel(false);
  EXPECT_TRUE(ResolvePlan(Llama65B(), H800(), odd, 256).ok());
  odd.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
  ExpectImpossible(Refusal(odd), "sequence-divides", "tensor-parallel overlap needs");
}

TEST(ResolvePlanTest, LearnedPositionsBoundTheSequence) {
  Model model = Llama65B();
  EXPECT_TRUE(ResolvePlan(model, H800(), Figure7(), 256).ok());  // Rotary: any length.
  model.set_family(GPT);
  ExpectImpossible(Refusal(Figure7(), 256, {}, model), "sequence-positions", "2048");
}

TEST(ResolvePlanTest, LimitsOfThePaper) {
  const PlanRules paper = {.kuaishou = true};
  Plan two = Figure7();
  two.set_pipeline_parallel(2);
  EXPECT_TRUE(ResolvePlan(Llama65B(), H800(), two, 256).ok());
  ExpectImpossible(Refusal(two, 256, paper), "kuaishou-pipeline", "p = 2");

  Plan wide = Figure7("tensor_parallel: 16 context_parallel: 1 pipeline_parallel: 4");
  wide.set_context_parallel(1);
  EXPECT_TRUE(ResolvePlan(Llama65B(), H800(), wide, 256).ok());
  ExpectImpossible(Refusal(wide, 256, paper), "kuaishou-tensor-in-node", "t = 16");

  const Plan far = Figure7("tensor_parallel: 4 context_parallel: 4");
  ExpectImpossible(Refusal(far, 256, paper), "kuaishou-context-in-node", "c = 4 (t = 4)");
  Model grouped = Llama65B();
  grouped.set_kv_heads(8);
  EXPECT_TRUE(ResolvePlan(grouped, H800(), far, 256, paper).ok());

  // The rank order decides who shares a node.
  ExpectImpossible(Refusal(Figure7("rank_order: 'pp-tp-cp-dp'"), 256, paper),
                   "kuaishou-tensor-in-node", "t = 2");

  ExpectImpossible(
      Refusal(Figure7("recompute: RECOMPUTE_SELECTIVE attention: ATTENTION_UNFUSED"), 256, paper),
      "kuaishou-recompute", "RECOMPUTE_SELECTIVE");
}

TEST(ResolvePlanTest, RefusesValuesOutOfRange) {
  ExpectBadValue(Refusal(Figure7("tensor_parallel: -2")), "tensor_parallel is -2");
  ExpectBadValue(Refusal(Figure7("micro_batch: 9223372036854775807")), "micro_batch");
  ExpectBadValue(Refusal(Figure7("zero_stage: 4")), "zero_stage is 4");
  ExpectBadValue(Refusal(Figure7("offload_ratio: 1.5")), "offload_ratio is 1.5");
  ExpectBadValue(Refusal(Figure7("offload_ratio: nan")), "offload_ratio");
  ExpectBadValue(Refusal(Figure7("schedule: 77")), "schedule is 77");
  ExpectBadValue(Refusal(Figure7("recompute: 77")), "recompute is 77");
  ExpectBadValue(Refusal(Figure7("attention: 77")), "attention is 77");
  ExpectBadValue(Refusal(Figure7("tensor_parallel_overlap: 77")), "tensor_parallel_overlap is 77");
  ExpectBadValue(Refusal(Figure7("stored_tensors: 'input'")), "stored_tensors has 1");
  ExpectBadValue(Refusal(Figure7("recompute: RECOMPUTE_CUSTOM")), "stored_tensors has 0");
  ExpectBadValue(Refusal(Figure7(), 0), "0 GPUs");
  for (const char* order :
       {"tp-cp-dp", "tp-cp-dp-pp-tp", "tp-tp-dp-pp", "tp,cp,dp,pp", "-", "tp"}) {
    ExpectBadValue(Refusal(Figure7(std::string("rank_order: '") + order + "'")), order);
  }
  Plan no_batch = Figure7();
  no_batch.clear_global_batch();
  ExpectBadValue(Refusal(no_batch), "global_batch is missing (--global-batch)");
  Model no_length = Llama65B();
  no_length.clear_max_sequence_length();
  Plan no_sequence = Figure7();
  no_sequence.clear_sequence_length();
  ExpectBadValue(Refusal(no_sequence, 256, {}, no_length), "sequence_length is 0");
}

TEST(ResolvePlanTest, RefusesSizesThatWouldOverflow) {
  ExpectBadValue(Refusal(Figure7("sequence_length: 33554432 global_batch: 33554432 "
                                 "micro_batch: 4194304 layers_per_stage: 10 "
                                 "attention: ATTENTION_UNFUSED")),
                 "activations");
}

TEST(ResolvePlanTest, SaysWhatChangesNothing) {
  Plan plan = Text<Plan>(R"(global_batch: 1 sequence_parallel: true zero_stage: 2
                            tensor_parallel_overlap: TP_OVERLAP_CHUNKED data_parallel_overlap: true
                            recompute: RECOMPUTE_SELECTIVE)");
  const auto resolved = ResolvePlan(Llama65B(), H800(), plan, 1);
  ASSERT_TRUE(resolved.ok()) << resolved.error().message;
  EXPECT_THAT(resolved.value().warnings,
              ElementsAre(HasSubstr("sequence_parallel"), HasSubstr("tensor_parallel_overlap"),
                          HasSubstr("data_parallel_overlap"), HasSubstr("zero_stage 2"),
                          HasSubstr("RECOMPUTE_SELECTIVE")));
  EXPECT_FALSE(resolved.value().sequence_parallel);
  EXPECT_EQ(resolved.value().tp_overlap, TP_OVERLAP_NONE);
  EXPECT_FALSE(resolved.value().dp_overlap);
  EXPECT_EQ(resolved.value().recompute, RECOMPUTE_NONE);
}

TEST(ResolvePlanTest, SaysWhereOffloadSavesNothing) {
  const auto one =
      ResolvePlan(Llama65B(), H800(), Text<Plan>("global_batch: 8 offload_ratio: 0.5"), 1);
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_THAT(one.value().warnings, ElementsAre(HasSubstr("offload_ratio changes nothing")));
  EXPECT_EQ(one.value().offload_ratio, 0);
  const auto two = ResolvePlan(
      Llama65B(), H800(), Text<Plan>("pipeline_parallel: 2 global_batch: 8 offload_ratio: 0.5"), 2);
  ASSERT_TRUE(two.ok()) << two.error().message;
  EXPECT_THAT(two.value().warnings, ElementsAre(HasSubstr("saves no GPU memory")));
  EXPECT_EQ(two.value().offload_ratio, 0.5);
}

// Whatever the numbers, the answer is a consistent plan or an error with a rule and a sentence.
TEST(ResolvePlanTest, AnyNumbersGiveAPlanOrARule) {
  int plans = 0;
  const bool holds = rc::check([&plans] {
    const auto one_of = [](std::initializer_list<std::int64_t> usual) {
      return *rc::gen::weightedOneOf<std::int64_t>(
          {{30, rc::gen::elementOf(std::vector<std::int64_t>(usual))},
           {1, rc::gen::arbitrary<std::int64_t>()}});
    };
    const Model model = Llama65B();
    Plan plan;
    plan.set_tensor_parallel(one_of({0, 1, 2, 4, 8}));
    plan.set_context_parallel(one_of({0, 1, 2, 3}));
    plan.set_pipeline_parallel(one_of({1, 2, 4, 8}));
    plan.set_data_parallel(one_of({0, 0, 0, 0, 8}));
    plan.set_virtual_stages(one_of({0, 0, 0, 1, 5}));
    plan.set_layers_per_stage(one_of({0, 0, 0, 1, 2}));
    plan.set_micro_batch(one_of({0, 1, 2}));
    plan.set_global_batch(one_of({256, 4096}));
    plan.set_sequence_length(one_of({0, 4096, 8192}));
    plan.set_schedule(static_cast<Schedule>(*rc::gen::element(0, 0, 0, 1, 2, 3, 5)));
    const std::int64_t gpus = *rc::gen::element<std::int64_t>(64, 256, 256, -5);
    const auto resolved = ResolvePlan(model, H800(), plan, gpus);
    if (!resolved.ok()) {
      RC_ASSERT(!resolved.error().rule.empty());
      RC_ASSERT(!resolved.error().message.empty());
      return;
    }
    ++plans;
    const ResolvedPlan& r = resolved.value();
    RC_ASSERT(r.t * r.c * r.p * r.d == gpus);
    RC_ASSERT(r.p * r.v * r.l == model.layers());
    RC_ASSERT(r.b * r.d * r.m == r.global_batch);
    RC_ASSERT((r.schedule == INTERLEAVED_1F1B) == (r.v > 1));
  });
  EXPECT_TRUE(holds);
  EXPECT_GE(plans, 10);  // The generator reaches both outcomes.
}

std::string BlocksOf(const std::string& fields, std::int64_t layers = 8) {
  Model model = Llama65B();
  model.set_layers(layers);
  const auto plan = ResolvePlan(model, H800(), Text<Plan>("global_batch: 8 " + fields), 1);
  if (!plan.ok()) return plan.error().rule + ": " + plan.error().message;
  std::string text;
  for (const BlockActivations choice : plan.value().blocks) {
    text += choice == BLOCK_SWAP ? 's' : choice == BLOCK_CHECKPOINT ? 'c' : 'k';
  }
  return text;
}

// ProTrain: of eight blocks 1 and 4 are swapped, 2, 3, 5 and 6 checkpointed, 7 and 8 neither.
TEST(BlocksTest, InterleavedArrangement) {
  EXPECT_EQ(BlocksOf("swapped_blocks: 2 checkpointed_blocks: 4"), "sccscckk");
  EXPECT_EQ(BlocksOf("swapped_blocks: 2 checkpointed_blocks: 4 swap_interval: 2"), "scsccckk");
  EXPECT_EQ(BlocksOf("swapped_blocks: 2 checkpointed_blocks: 4 swap_interval: 7"), "scccckks");
  EXPECT_EQ(BlocksOf("swapped_blocks: 2"), "skkkskkk");
  EXPECT_EQ(BlocksOf("swapped_blocks: 8"), "ssssssss");
  EXPECT_EQ(BlocksOf("checkpointed_blocks: 3"), "ccckkkkk");
  EXPECT_EQ(BlocksOf("checkpointed_blocks: 8"), "cccccccc");
  EXPECT_EQ(BlocksOf("swapped_blocks: 0"), "");
  EXPECT_EQ(BlocksOf("blocks: BLOCK_SWAP blocks: BLOCK_DEFAULT blocks: BLOCK_CHECKPOINT", 3),
            "skc");
  EXPECT_EQ(BlocksOf("blocks: BLOCK_KEEP blocks: BLOCK_KEEP", 2), "");
}

TEST(BlocksTest, Errors) {
  EXPECT_THAT(BlocksOf("swapped_blocks: 5 checkpointed_blocks: 4"), HasSubstr("blocks-count: "));
  EXPECT_THAT(BlocksOf("swapped_blocks: 3 swap_interval: 4"), HasSubstr("needs 9 blocks"));
  EXPECT_THAT(BlocksOf("swap_interval: 4"), HasSubstr("goes with swapped_blocks"));
  EXPECT_THAT(BlocksOf("blocks: BLOCK_SWAP"), HasSubstr("has 1 choices, the model 8 layers"));
  EXPECT_THAT(BlocksOf("blocks: BLOCK_SWAP swapped_blocks: 1", 1), HasSubstr("plan-value: "));
  EXPECT_THAT(BlocksOf("swapped_blocks: -1"), HasSubstr("plan-value: "));
  ExpectImpossible(Refusal(Figure7("checkpointed_blocks: 17")), "blocks-stages", "stages do not");
  ExpectImpossible(Refusal(Figure7("swapped_blocks: 40 offload_ratio: 0.5")), "swap-offload",
                   "choose one");
  Plan uneven = Figure7("offload_ratio: 0.5");
  for (int layer = 0; layer < 80; ++layer) {
    uneven.add_blocks(layer == 5 ? BLOCK_CHECKPOINT : BLOCK_KEEP);
  }
  ExpectImpossible(Refusal(uneven), "blocks-offload", "layer 5 of stage 2");
}

TEST(ChunksTest, AnyFieldTurnsThemOn) {
  const auto chunks = [](const std::string& fields) {
    return ResolvePlan(Llama65B(), H800(), Text<Plan>("global_batch: 8 " + fields), 1)
        .value()
        .chunks;
  };
  EXPECT_FALSE(chunks("").enabled);
  const ChunkPlan expected{.enabled = true, .persistent = 0, .buffers = 3};
  EXPECT_EQ(chunks("persistent_chunks: 0"), expected);
  EXPECT_EQ(chunks("chunk_buffers: 5").buffers, 5);
  EXPECT_TRUE(chunks("chunk_bytes: 1000").enabled);
  EXPECT_FALSE(chunks("persistent_chunks: 1 host_optimizer_overlap: false").host_optimizer_overlap);
  EXPECT_EQ(Refusal(Figure7("chunk_buffers: -1")).rule, "plan-value");
  EXPECT_EQ(Refusal(Figure7("chunk_bytes: 9000000000000000000")).rule, "plan-value");
}

TEST(ChunksTest, WhatChangesNothingIsSaid) {
  const auto warnings = [](const std::string& fields) {
    const auto plan = ResolvePlan(Llama65B(), H800(), Figure7(fields), 256);
    std::string all;
    for (const std::string& warning : plan.value().warnings) all += warning + "\n";
    return all;
  };
  EXPECT_THAT(warnings("persistent_chunks: 1 zero_stage: 3"), HasSubstr("zero_stage"));
  EXPECT_THAT(warnings("host_optimizer_overlap: true"), HasSubstr("without chunks"));
  EXPECT_THAT(warnings("checkpointed_blocks: 80 recompute: RECOMPUTE_FULL"),
              HasSubstr("RECOMPUTE_FULL"));
}

}  // namespace
}  // namespace twinstep
