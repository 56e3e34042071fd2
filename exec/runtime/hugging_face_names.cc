#include "exec/runtime/hugging_face_names.h"

#include "sim/str_cat.h"

namespace twinstep {
namespace {

class TensorList {
 public:
  // What follows belongs to a layer, or to none.
  void Begin(std::uint16_t block, std::string prefix) {
    block_ = block;
    prefix_ = std::move(prefix);
  }
  void Vector(const char* name, TensorKind kind, std::int64_t columns) {
    list_.push_back({.name = prefix_ + name,
                     .is_vector = true,
                     .block = block_,
                     .kind = kind,
                     .columns = columns});
  }
  void Matrix(const char* name, TensorKind kind, std::int64_t rows, std::int64_t columns,
              std::int64_t row_begin = 0) {
    list_.push_back({.name = prefix_ + name,
                     .block = block_,
                     .kind = kind,
                     .row_begin = row_begin,
                     .rows = rows,
                     .columns = columns});
  }
  void Conv1d(const char* name, TensorKind kind, std::int64_t rows, std::int64_t columns) {
    Matrix(name, kind, rows, columns);
    list_.back().transposed = true;
  }
  void Head(std::int64_t rows, std::int64_t columns) {
    Begin(kNoTag, "");
    Matrix("lm_head.weight", TensorKind::kHeadWeight, rows, columns);
    list_.back().has_prefix = false;
  }
  std::vector<HuggingFaceTensor> Finish() { return std::move(list_); }

 private:
  std::vector<HuggingFaceTensor> list_;
  std::uint16_t block_ = kNoTag;
  std::string prefix_;
};

struct Sizes {
  explicit Sizes(const Model& model)
      : h(model.hidden_size()),
        ffn(model.ffn_hidden_size()),
        vocab(model.vocab_size()),
        positions(model.max_sequence_length()) {
    const std::int64_t heads = model.attention_heads();
    const std::int64_t d = model.head_dim() == 0 ? h / heads : model.head_dim();
    q = heads * d;
    kv = (model.kv_heads() == 0 ? heads : model.kv_heads()) * d;
  }
  std::int64_t h, ffn, vocab, positions, q = 0, kv = 0;
};

void AddGpt2(const Model& model, TensorList* list) {
  const Sizes s(model);
  list->Matrix("wte.weight", TensorKind::kTokenEmbedding, s.vocab, s.h);
  list->Matrix("wpe.weight", TensorKind::kPositionEmbedding, s.positions, s.h);
  for (std::uint16_t i = 0; i < model.layers(); ++i) {
    list->Begin(i, StrCat("h.", i, "."));
    list->Vector("ln_1.weight", TensorKind::kNorm1Weight, s.h);
    list->Vector("ln_1.bias", TensorKind::kNorm1Bias, s.h);
    list->Conv1d("attn.c_attn.weight", TensorKind::kQkvWeight, s.q + 2 * s.kv, s.h);
    list->Vector("attn.c_attn.bias", TensorKind::kQkvBias, s.q + 2 * s.kv);
    list->Conv1d("attn.c_proj.weight", TensorKind::kOutWeight, s.h, s.q);
    list->Vector("attn.c_proj.bias", TensorKind::kOutBias, s.h);
    list->Vector("ln_2.weight", TensorKind::kNorm2Weight, s.h);
    list->Vector("ln_2.bias", TensorKind::kNorm2Bias, s.h);
    list->Conv1d("mlp.c_fc.weight", TensorKind::kUpWeight, s.ffn, s.h);
    list->Vector("mlp.c_fc.bias", TensorKind::kUpBias, s.ffn);
    list->Conv1d("mlp.c_proj.weight", TensorKind::kDownWeight, s.h, s.ffn);
    list->Vector("mlp.c_proj.bias", TensorKind::kDownBias, s.h);
  }
  list->Begin(kNoTag, "");
  list->Vector("ln_f.weight", TensorKind::kFinalNormWeight, s.h);
  list->Vector("ln_f.bias", TensorKind::kFinalNormBias, s.h);
}

void AddLlama(const Model& model, TensorList* list) {
  const Sizes s(model);
  list->Matrix("embed_tokens.weight", TensorKind::kTokenEmbedding, s.vocab, s.h);
  for (std::uint16_t i = 0; i < model.layers(); ++i) {
    list->Begin(i, StrCat("layers.", i, "."));
    list->Vector("input_layernorm.weight", TensorKind::kNorm1Weight, s.h);
    list->Matrix("self_attn.q_proj.weight", TensorKind::kQkvWeight, s.q, s.h);
    list->Matrix("self_attn.k_proj.weight", TensorKind::kQkvWeight, s.kv, s.h, s.q);
    list->Matrix("self_attn.v_proj.weight", TensorKind::kQkvWeight, s.kv, s.h, s.q + s.kv);
    list->Matrix("self_attn.o_proj.weight", TensorKind::kOutWeight, s.h, s.q);
    list->Vector("post_attention_layernorm.weight", TensorKind::kNorm2Weight, s.h);
    list->Matrix("mlp.gate_proj.weight", TensorKind::kUpWeight, s.ffn, s.h);
    list->Matrix("mlp.up_proj.weight", TensorKind::kUpWeight, s.ffn, s.h, s.ffn);
    list->Matrix("mlp.down_proj.weight", TensorKind::kDownWeight, s.h, s.ffn);
  }
  list->Begin(kNoTag, "");
  list->Vector("norm.weight", TensorKind::kFinalNormWeight, s.h);
}

}  // namespace

std::vector<HuggingFaceTensor> HuggingFaceTensors(const Model& model) {
  TensorList list;
  list.Begin(kNoTag, "");
  if (model.family() == GPT) {
    AddGpt2(model, &list);
  } else {
    AddLlama(model, &list);
  }
  if (!model.tied_embeddings()) list.Head(model.vocab_size(), model.hidden_size());
  return list.Finish();
}

std::string HuggingFacePrefix(const Model& model) {
  return model.family() == GPT ? "transformer." : "model.";
}

}  // namespace twinstep
