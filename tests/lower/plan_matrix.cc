#include "tests/lower/plan_matrix.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "model_zoo/find_model.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

constexpr std::int64_t kSequence = 32;

[[noreturn]] void Die(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  std::abort();
}

class MatrixBuilder {
 public:
  // `edit` changes the model and the plan before the plan is resolved for t c p d GPUs.
  template <typename Edit>
  void Add(const std::string& name, const std::string& model_name, std::int64_t t, std::int64_t c,
           std::int64_t p, std::int64_t d, Edit edit) {
    Result<Model> model = FindModel(model_name);
    if (!model.ok()) Die(model.error());
    model.value().set_layers(4);
    Plan plan;
    plan.set_tensor_parallel(t);
    plan.set_context_parallel(c);
    plan.set_pipeline_parallel(p);
    plan.set_sequence_length(kSequence);
    plan.set_micro_batch(2);
    plan.set_global_batch(2 * d * 4);
    edit(&model.value(), &plan);
    Result<ResolvedPlan> resolved =
        ResolvePlan(model.value(), MatrixCluster(), plan, t * c * p * d);
    if (!resolved.ok()) Die(resolved.error());
    cases_.push_back({.name = model_name + " " + name + " t" + std::to_string(t) + " c" +
                              std::to_string(c) + " p" + std::to_string(p) + " d" +
                              std::to_string(d),
                      .model = model.value(),
                      .plan = resolved.value()});
  }
  void Add(const std::string& name, const std::string& model_name, std::int64_t t, std::int64_t c,
           std::int64_t p, std::int64_t d) {
    Add(name, model_name, t, c, p, d, [](Model*, Plan*) {});
  }

  std::vector<MatrixCase> Take() { return std::move(cases_); }

 private:
  std::vector<MatrixCase> cases_;
};

void SetBlocks(Plan* plan, const std::string& choices) {
  for (const char choice : choices) {
    plan->add_blocks(choice == 's' ? BLOCK_SWAP : choice == 'c' ? BLOCK_CHECKPOINT : BLOCK_KEEP);
  }
}

// Chunks of about one block, in which gradients take the parameters' place and in which not.
void AddChunkPlans(MatrixBuilder* m) {
  struct Size {
    std::int64_t t, c, p, d;
  };
  for (const char* name : {"tiny-llama", "tiny-gpt", "tiny-llama-tied", "tiny-gpt-untied"}) {
    for (const Size& size : {Size{1, 1, 1, 1}, Size{1, 1, 1, 2}, Size{2, 1, 1, 2}, Size{1, 2, 1, 1},
                             Size{1, 1, 2, 2}, Size{2, 2, 2, 1}}) {
      for (const std::int64_t persist : {0, 1, 2}) {
        for (const bool one_micro_batch : {false, true}) {
          if (one_micro_batch && size.p > 1) continue;
          m->Add("chunks, persist " + std::to_string(persist), name, size.t, size.c, size.p, size.d,
                 [=](Model* model, Plan* plan) {
                   plan->set_persistent_chunks(persist);
                   plan->set_chunk_buffers(persist > 0 ? 3 : 4);
                   plan->set_chunk_bytes((208 << 10) / size.t);
                   if (one_micro_batch) plan->set_micro_batch(8);
                   if (persist == 1) SetBlocks(plan, "scsk");
                   if (persist == 2) model->mutable_recipe()->set_clip_norm(1);
                   if (persist == 2) plan->set_host_optimizer_overlap(false);
                 });
        }
      }
    }
  }
  for (const char* blocks : {"skkk", "ssss", "cckk", "kcsk"}) {
    m->Add(std::string("blocks ") + blocks, "tiny-llama", 1, 1, 1, 2,
           [=](Model*, Plan* plan) { SetBlocks(plan, blocks); });
    m->Add(std::string("blocks ") + blocks, "tiny-gpt", 2, 1, 2, 1, [=](Model*, Plan* plan) {
      SetBlocks(plan, blocks);
      plan->set_virtual_stages(2);
    });
  }
  m->Add("checkpoint, offload, chunks", "tiny-llama", 1, 1, 4, 1, [](Model*, Plan* plan) {
    plan->set_persistent_chunks(0);
    plan->set_chunk_bytes(208 << 10);
    plan->set_offload_ratio(0.6);
    plan->set_checkpointed_blocks(4);
  });
}

}  // namespace

Cluster MatrixCluster() {
  Cluster cluster;
  cluster.set_name("matrix");
  cluster.set_nodes(64);
  cluster.mutable_gpu()->set_attention_backward_fp32_dq(true);
  cluster.mutable_node()->set_gpus(2);
  cluster.mutable_node()->mutable_nic()->set_count(2);
  return cluster;
}

std::vector<MatrixCase> PlanMatrix() {
  MatrixBuilder m;
  for (const char* model :
       {"tiny-llama", "tiny-llama-gqa", "tiny-llama-tied", "tiny-gpt", "tiny-gpt-untied"}) {
    m.Add("plain", model, 1, 1, 1, 1);
    m.Add("all", model, 2, 2, 2, 2);
    m.Add("data", model, 1, 1, 1, 4);
    m.Add("pipeline", model, 1, 1, 4, 1);
    m.Add("tensor", model, 2, 1, 1, 1);
    m.Add("context", model, 1, 2, 1, 1);
    m.Add("interleaved", model, 1, 1, 2, 2,
          [](Model*, Plan* plan) { plan->set_virtual_stages(2); });
    for (const int zero : {0, 2, 3}) {
      m.Add("zero" + std::to_string(zero), model, 1, 2, 2, 2,
            [zero](Model*, Plan* plan) { plan->set_zero_stage(zero); });
      m.Add("zero" + std::to_string(zero), model, 2, 1, 1, 2,
            [zero](Model*, Plan* plan) { plan->set_zero_stage(zero); });
    }
    for (const Recompute recompute : {RECOMPUTE_SELECTIVE, RECOMPUTE_BALANCED, RECOMPUTE_FULL}) {
      m.Add("recompute " + Recompute_Name(recompute), model, 2, 2, 2, 1,
            [recompute](Model*, Plan* plan) {
              plan->set_recompute(recompute);
              plan->set_virtual_stages(2);
            });
    }
    m.Add("no sequence parallelism", model, 2, 1, 2, 2,
          [](Model*, Plan* plan) { plan->set_sequence_parallel(false); });
    const std::int64_t heads_limit = std::string(model).starts_with("tiny-llama-") ? 2 : 4;
    m.Add("chunked tensor overlap", model, heads_limit, 1, 2, 1, [](Model*, Plan* plan) {
      plan->set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
      plan->set_virtual_stages(2);
    });
    m.Add("overlapped data parallelism", model, 2, 1, 2, 2,
          [](Model*, Plan* plan) { plan->set_data_parallel_overlap(true); });
    m.Add("unfused attention, dropout", model, 2, 2, 1, 1, [](Model* model_, Plan* plan) {
      plan->set_attention(ATTENTION_UNFUSED);
      model_->mutable_recipe()->set_hidden_dropout(0.1);
      model_->mutable_recipe()->set_attention_dropout(0.1);
    });
    m.Add("unfused attention, dropout, selective", model, 2, 1, 2, 1,
          [](Model* model_, Plan* plan) {
            plan->set_attention(ATTENTION_UNFUSED);
            plan->set_recompute(RECOMPUTE_SELECTIVE);
            model_->mutable_recipe()->set_hidden_dropout(0.1);
            model_->mutable_recipe()->set_attention_dropout(0.1);
          });
    m.Add("gpipe", model, 1, 1, 4, 1, [](Model*, Plan* plan) { plan->set_schedule(GPIPE); });
    m.Add("rank order", model, 2, 1, 2, 2,
          [](Model*, Plan* plan) { plan->set_rank_order("pp-dp-cp-tp"); });
  }
  for (const double ratio : {0.1, 0.37, 0.5, 0.8, 1.0}) {
    for (const Recompute recompute : {RECOMPUTE_NONE, RECOMPUTE_BALANCED}) {
      const auto offload = [ratio, recompute](Model*, Plan* plan) {
        plan->set_offload_ratio(ratio);
        plan->set_recompute(recompute);
      };
      const std::string name = "offload " + std::to_string(ratio).substr(0, 4);
      m.Add(name, "tiny-llama", 1, 1, 4, 1, offload);
      m.Add(name + " interleaved", "tiny-llama-gqa", 2, 2, 2, 1,
            [offload](Model* model, Plan* plan) {
              offload(model, plan);
              plan->set_virtual_stages(2);
            });
      m.Add(name + " interleaved", "tiny-gpt", 2, 1, 2, 2, [offload](Model* model, Plan* plan) {
        offload(model, plan);
        plan->set_virtual_stages(2);
        plan->set_zero_stage(3);
      });
      m.Add(name + " gpipe", "tiny-llama-tied", 1, 1, 2, 1, [offload](Model* model, Plan* plan) {
        offload(model, plan);
        plan->set_schedule(GPIPE);
      });
    }
  }
  AddChunkPlans(&m);
  m.Add("custom stored tensors", "tiny-llama", 2, 2, 2, 1, [](Model*, Plan* plan) {
    plan->set_recompute(RECOMPUTE_CUSTOM);
    for (const char* name : {"kv", "residual", "attention_out"}) plan->add_stored_tensors(name);
  });
  m.Add("custom stored tensors", "tiny-gpt", 2, 1, 1, 1, [](Model*, Plan* plan) {
    plan->set_recompute(RECOMPUTE_CUSTOM);
    plan->add_stored_tensors("mlp_up");
    plan->add_stored_tensors("q");
  });
  return m.Take();
}

ResolvedPlan PlainPlan(const MatrixCase& test_case) {
  Plan plan;
  plan.set_sequence_length(test_case.plan.sequence_length);
  plan.set_micro_batch(test_case.plan.b);
  plan.set_global_batch(test_case.plan.global_batch);
  plan.set_attention(test_case.plan.attention);
  Result<ResolvedPlan> plain = ResolvePlan(test_case.model, MatrixCluster(), plan, 1);
  if (!plain.ok()) Die(plain.error());
  return plain.value();
}

TaskGraph LowerOrDie(const Model& model, const ResolvedPlan& plan, bool fold) {
  Result<TaskGraph> graph = Lower(model, MatrixCluster(), plan, {.fold = fold});
  if (!graph.ok()) Die(graph.error());
  return std::move(graph).value();
}

}  // namespace twinstep
