#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "model_zoo/find_model.h"
#include "model_zoo/validate_model.h"
#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsSupersetOf;

TEST(ModelZooTest, EveryModelIsValidAndBearsItsName) {
  for (const std::string& name : ListModels()) {
    const auto model = FindModel(name);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model.value().name(), name);
    EXPECT_NE(model.value().source(), "") << name;
    EXPECT_NE(model.value().recipe().precision(), PRECISION_DEFAULT) << name;
    EXPECT_NE(model.value().recipe().gradient_precision(), GRADIENT_PRECISION_DEFAULT) << name;
  }
}

TEST(ModelZooTest, HasTheModelsOfThePapers) {
  EXPECT_THAT(ListModels(),
              IsSupersetOf({"gpt2-1.5b",      "gpt2-1b",        "gpt2-10b",        "gpt2-15b",
                            "gpt2-20b",       "gpt2-30b",       "gpt2-40b",        "opt-13b",
                            "opt-30b",        "llama-7b",       "llama-13b",       "llama-34b",
                            "llama-65b",      "llama2-70b",     "llama-175b",      "llama-3.1-8b",
                            "llama-3.1-70b",  "llama-3.1-405b", "mistral-7b",      "megatron-22b",
                            "megatron-175b",  "megatron-530b",  "megatron-1t",     "vtrain-3.6b",
                            "vtrain-18.4b",   "tiny-gpt",       "tiny-gpt-untied", "tiny-llama",
                            "tiny-llama-gqa", "tiny-llama-tied"}));
}

// Parameters by definition: embedding (twice if untied), learned positions, attention, MLP.
double Billions(const std::string& name) {
  const auto found = FindModel(name);
  EXPECT_TRUE(found.ok()) << found.error().message;
  const Model& m = found.value();
  const double h = static_cast<double>(m.hidden_size());
  const double heads = static_cast<double>(m.attention_heads());
  const double kv = m.kv_heads() > 0 ? static_cast<double>(m.kv_heads()) : heads;
  const double matrices = m.family() == LLAMA ? 3 : 2;
  const double layer =
      (2 + 2 * kv / heads) * h * h + matrices * h * static_cast<double>(m.ffn_hidden_size());
  const double vocabulary = static_cast<double>(m.vocab_size()) * (m.tied_embeddings() ? 1 : 2);
  const double positions = m.family() == GPT ? static_cast<double>(m.max_sequence_length()) : 0;
  return (static_cast<double>(m.layers()) * layer + (vocabulary + positions) * h) / 1e9;
}

TEST(ModelZooTest, SizesAreThoseOfTheNames) {
  const std::pair<const char*, double> sizes[] = {
      {"gpt2-1.5b", 1.56},      {"gpt2-1b", 1.07},       {"gpt2-10b", 9.9},
      {"gpt2-15b", 14.9},       {"gpt2-20b", 19.7},      {"gpt2-30b", 29.4},
      {"gpt2-40b", 40.7},       {"opt-13b", 12.9},       {"opt-30b", 30.0},
      {"llama-7b", 6.738},      {"llama-13b", 13.0},     {"llama-34b", 33.7},
      {"llama-65b", 65.28},     {"llama2-70b", 68.97},   {"llama-175b", 174.73},
      {"llama-3.1-8b", 8.03},   {"llama-3.1-70b", 70.6}, {"llama-3.1-405b", 405.8},
      {"mistral-7b", 7.24},     {"megatron-22b", 22.1},  {"megatron-175b", 174.6},
      {"megatron-530b", 529.6}, {"megatron-1t", 1008},   {"vtrain-3.6b", 3.56},
      {"vtrain-18.4b", 18.4}};
  for (const auto& [name, billions] : sizes) {
    EXPECT_NEAR(Billions(name), billions, 0.01 * billions) << name;
  }
}

TEST(FindModelTest, UnknownNameGivesTheClosest) {
  const auto unknown = FindModel("llama-66b");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ExitCode::kBadInput);
  EXPECT_THAT(unknown.error().message,
              AllOf(HasSubstr("no model 'llama-66b'"), HasSubstr("llama-65b")));
  EXPECT_TRUE(FindModel("LLaMA-65B").ok());
  EXPECT_FALSE(FindModel("").ok());
}

TEST(FindModelTest, ReadsAFileByItsPath) {
  const std::string path = testing::TempDir() + "/mine.textproto";
  std::ofstream(path) << "name: 'mine' family: LLAMA layers: 2 hidden_size: 64\n"
                         "ffn_hidden_size: 176 attention_heads: 5 vocab_size: 256\n";
  const auto bad = FindModel(path);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message,
            path +
                ":2:22: attention_heads: 5 does not divide hidden_size 64, and head_dim is not "
                "given");
  const auto missing = FindModel("no/such/model.textproto");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr("no/such/model.textproto: No such file"));
}

std::string Problems(const std::string& changes) {
  Model model = FindModel("tiny-llama").value();
  const auto patch = ParseText<Model>(changes, "patch");
  EXPECT_TRUE(patch.ok()) << patch.error().message;
  model.MergeFrom(patch.value().message);
  const Status status = ValidateModel(model);
  return status.ok() ? "" : status.error().message;
}

TEST(ValidateModelTest, FindsWhatCannotBe) {
  EXPECT_EQ(Problems(""), "");
  EXPECT_THAT(Problems("layers: -1"),
              HasSubstr("model 'tiny-llama': layers: -1 is not between 1 and 100000"));
  EXPECT_THAT(Problems("kv_heads: 3"), HasSubstr("3 does not divide the 4 attention_heads"));
  EXPECT_THAT(Problems("head_dim: 15"), HasSubstr("even head size, this is 15"));
  EXPECT_THAT(Problems("activation: GELU"), HasSubstr(": activation: "));
  EXPECT_THAT(Problems("family: 9"), HasSubstr(": family: 9 is no value of Family"));
  EXPECT_THAT(Problems("recipe { hidden_dropout: 1 }"), HasSubstr(": recipe.hidden_dropout: "));
  EXPECT_THAT(Problems("recipe { clip_norm: inf }"), HasSubstr(": recipe.clip_norm: "));
  EXPECT_THAT(Problems("vocab_size: 9000000000000000000"), HasSubstr(": vocab_size: 9e+18"));
  EXPECT_THAT(Problems("ffn_hidden_size: 99999999999"),
              HasSubstr(": ffn_hidden_size: 99999999999 is not between 1 and 16777216"));
  EXPECT_THAT(Problems("layers: 100000 hidden_size: 4194304 ffn_hidden_size: 4194304"),
              HasSubstr("parameters, more than"));
  Model empty;
  EXPECT_THAT(ValidateModel(empty).error().message,
              AllOf(HasSubstr(": layers: is missing or 0"), HasSubstr(": hidden_size: "),
                    HasSubstr(": family: is missing")));
}

}  // namespace
}  // namespace twinstep
