#include "model_zoo/validate_model.h"

#include "sim/str_cat.h"
#include "sim/textproto/field_rules.h"

namespace twinstep {
namespace {

constexpr double kMaxParameters = 0x1p50;

void CheckHeads(const Model& model, FieldErrors* errors) {
  const std::int64_t heads = model.attention_heads();
  if (model.kv_heads() > 0 && heads % model.kv_heads() != 0) {
    errors->Add("kv_heads",
                StrCat(model.kv_heads(), " does not divide the ", heads, " attention_heads"));
  }
  if (model.head_dim() == 0 && model.hidden_size() % heads != 0) {
    errors->Add("attention_heads", StrCat(heads, " does not divide hidden_size ",
                                          model.hidden_size(), ", and head_dim is not given"));
    return;
  }
  const std::int64_t head_dim =
      model.head_dim() > 0 ? model.head_dim() : model.hidden_size() / heads;
  if (model.family() == LLAMA && head_dim % 2 != 0) {
    errors->Add(model.head_dim() > 0 ? "head_dim" : "attention_heads",
                StrCat("rotary positions need an even head size, this is ", head_dim));
  }
}

void CheckSize(const Model& model, FieldErrors* errors) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double hidden = real(model.hidden_size());
  const double head_dim =
      model.head_dim() > 0 ? real(model.head_dim()) : hidden / real(model.attention_heads());
  const double attention = 4 * hidden * real(model.attention_heads()) * head_dim;
  const double parameters =
      real(model.layers()) * (attention + 3 * hidden * real(model.ffn_hidden_size())) +
      hidden * (2 * real(model.vocab_size()) + real(model.max_sequence_length()));
  if (parameters > kMaxParameters) {
    errors->Add("layers", StrCat("the model has about ", parameters, " parameters, more than ",
                                 kMaxParameters));
  }
}

}  // namespace

Status ValidateModel(const Model& model, const TextSource& source) {
  FieldErrors errors(model, source);
  errors.CheckEveryNumber();
  errors.CheckRange("layers", 1, 1e5);
  errors.CheckRange("hidden_size", 1, 0x1p22);
  errors.CheckRange("ffn_hidden_size", 1, 0x1p24);
  errors.CheckRange("attention_heads", 1, 0x1p16);
  errors.CheckRange("kv_heads", 0, 0x1p16);
  errors.CheckRange("head_dim", 0, 0x1p16);
  errors.CheckRange("vocab_size", 1, 0x1p26);
  // Learned positions are parameters; rotary ones have no end, and 0 leaves the length to the plan.
  errors.CheckRange("max_sequence_length", model.family() == GPT ? 1 : 0, 0x1p26);
  errors.CheckRange("vocab_padding_multiple", 0, 0x1p20);
  errors.CheckRange("recipe.hidden_dropout", 0, 0.99);
  errors.CheckRange("recipe.attention_dropout", 0, 0.99);
  if (model.family() == FAMILY_UNSPECIFIED) {
    errors.Add("family", "is missing; it is GPT or LLAMA");
  }
  const bool gated = model.activation() == SWIGLU;
  if (model.activation() != ACTIVATION_DEFAULT && gated != (model.family() == LLAMA)) {
    errors.Add("activation", "GPT has GELU or RELU, LLAMA has SWIGLU");
  }
  if (errors.ok()) CheckHeads(model, &errors);
  if (errors.ok()) CheckSize(model, &errors);
  return errors.status();
}

Status ValidateModel(const Model& model) {
  return ValidateModel(model, TextSource{StrCat("model '", model.name(), "'"), nullptr});
}

}  // namespace twinstep
