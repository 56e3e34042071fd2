#include "tests/exec/runtime/small_models.h"

namespace twinstep {

std::vector<std::string> SmallModelNames() {
  return {"llama", "llama-gqa", "llama-tied", "gpt", "gpt-untied"};
}

Model SmallModel(const std::string& name, Precision precision) {
  const bool llama = name.starts_with("llama");
  Model model;
  model.set_name(name);
  model.set_family(llama ? LLAMA : GPT);
  model.set_layers(4);
  model.set_hidden_size(32);
  model.set_ffn_hidden_size(48);
  model.set_attention_heads(4);
  model.set_vocab_size(61);
  model.set_vocab_padding_multiple(1);
  model.set_max_sequence_length(32);
  model.mutable_recipe()->set_precision(precision);
  if (name == "llama-gqa") {
    model.set_kv_heads(2);
    model.mutable_recipe()->set_clip_norm(0.5);
  }
  if (name == "gpt-untied") model.set_activation(RELU);
  model.set_tied_embeddings(name == "llama-tied" || name == "gpt");
  return model;
}

}  // namespace twinstep
