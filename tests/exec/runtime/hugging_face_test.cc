#include "exec/runtime/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "exec/runtime/element_io.h"
#include "exec/runtime/safetensors.h"
#include "model_zoo/find_model.h"
#include "tests/exec/runtime/test_folder.h"
#include "tests/exec/runtime/training_state.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

// A model small enough to write its file by hand: h = 2, one layer.
Model Smallest(Family family, bool tied) {
  Model model;
  model.set_name("smallest");
  model.set_family(family);
  model.set_layers(1);
  model.set_hidden_size(2);
  model.set_ffn_hidden_size(3);
  model.set_attention_heads(1);
  model.set_vocab_size(4);
  model.set_max_sequence_length(5);
  model.set_tied_embeddings(tied);
  model.mutable_recipe()->set_precision(FP32);
  return model;
}

// A file whose tensors count on from one to the next, element by element.
class FileBuilder {
 public:
  void Add(const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < elements; ++i) numbers.push_back(static_cast<float>(next_++));
    numbers_.push_back(std::move(numbers));
    names_.push_back(name);
    shapes_.push_back(std::move(shape));
  }
  void Remove(const std::string& name) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] != name) continue;
      names_.erase(names_.begin() + static_cast<std::ptrdiff_t>(i));
      shapes_.erase(shapes_.begin() + static_cast<std::ptrdiff_t>(i));
      numbers_.erase(numbers_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    FAIL() << name;
  }
  Status Write(const std::string& path) const {
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      views.push_back({.name = names_[i],
                       .dtype = "F32",
                       .shape = shapes_[i],
                       .data = std::as_bytes(std::span(numbers_[i]))});
    }
    return WriteSafetensors(path, views, {{"format", "pt"}});
  }

 private:
  int next_ = 0;
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<std::vector<float>> numbers_;
};

FileBuilder Gpt2File(const std::string& prefix) {
  FileBuilder file;
  file.Add(prefix + "wte.weight", {4, 2});              // 0 ..
  file.Add(prefix + "wpe.weight", {5, 2});              // 8 ..
  file.Add(prefix + "h.0.ln_1.weight", {2});            // 18
  file.Add(prefix + "h.0.ln_1.bias", {2});              // 20
  file.Add(prefix + "h.0.attn.c_attn.weight", {2, 6});  // 22
  file.Add(prefix + "h.0.attn.c_attn.bias", {6});       // 34
  file.Add(prefix + "h.0.attn.c_proj.weight", {2, 2});  // 40
  file.Add(prefix + "h.0.attn.c_proj.bias", {2});       // 44
  file.Add(prefix + "h.0.ln_2.weight", {2});            // 46
  file.Add(prefix + "h.0.ln_2.bias", {2});              // 48
  file.Add(prefix + "h.0.mlp.c_fc.weight", {2, 3});     // 50
  file.Add(prefix + "h.0.mlp.c_fc.bias", {3});          // 56
  file.Add(prefix + "h.0.mlp.c_proj.weight", {3, 2});   // 59
  file.Add(prefix + "h.0.mlp.c_proj.bias", {2});        // 65
  file.Add(prefix + "ln_f.weight", {2});                // 67
  file.Add(prefix + "ln_f.bias", {2});                  // 69
  file.Add(prefix + "h.0.attn.bias", {1, 1, 5, 5});     // The causal mask.
  return file;
}

FileBuilder LlamaFile() {
  FileBuilder file;
  file.Add("lm_head.weight", {4, 2});                               // 0 ..
  file.Add("model.embed_tokens.weight", {4, 2});                    // 8
  file.Add("model.layers.0.input_layernorm.weight", {2});           // 16
  file.Add("model.layers.0.mlp.down_proj.weight", {2, 3});          // 18
  file.Add("model.layers.0.mlp.gate_proj.weight", {3, 2});          // 24
  file.Add("model.layers.0.mlp.up_proj.weight", {3, 2});            // 30
  file.Add("model.layers.0.post_attention_layernorm.weight", {2});  // 36
  file.Add("model.layers.0.self_attn.k_proj.weight", {2, 2});       // 38
  file.Add("model.layers.0.self_attn.o_proj.weight", {2, 2});       // 42
  file.Add("model.layers.0.self_attn.q_proj.weight", {2, 2});       // 46
  file.Add("model.layers.0.self_attn.v_proj.weight", {2, 2});       // 50
  file.Add("model.norm.weight", {2});                               // 54
  return file;
}

std::map<std::pair<std::uint16_t, TensorKind>, std::vector<double>> Numbers(
    const std::vector<LogicalTensor>& tensors) {
  std::map<std::pair<std::uint16_t, TensorKind>, std::vector<double>> numbers;
  for (const LogicalTensor& tensor : tensors) {
    EXPECT_EQ(tensor.state, StateKind::kParameter);
    auto& list = numbers[{tensor.block, tensor.kind}];
    for (std::int64_t i = 0; i < tensor.rows * tensor.columns; ++i) {
      list.push_back(LoadElement(tensor.dtype, tensor.data.data(), i));
    }
  }
  return numbers;
}

std::vector<double> From(int first, int count) {
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(first + i);
  return numbers;
}

TEST(HuggingFace, ReadsGpt2WithItsTransposedWeights) {
  for (const std::string prefix : {"", "transformer."}) {
    const TestFolder folder;
    const std::string path = folder.File("model.safetensors");
    ASSERT_TRUE(Gpt2File(prefix).Write(path).ok());
    const auto read = ReadHuggingFace(Smallest(GPT, true), path, Dtype::kFp32);
    ASSERT_TRUE(read.ok()) << read.error().message;
    const auto numbers = Numbers(read.value());
    EXPECT_EQ(numbers.size(), 16u);
    EXPECT_EQ(numbers.at({kNoTag, TensorKind::kTokenEmbedding}), From(0, 8));
    EXPECT_EQ(numbers.at({kNoTag, TensorKind::kPositionEmbedding}), From(8, 10));
    EXPECT_EQ(numbers.at({0, TensorKind::kNorm1Bias}), From(20, 2));
    // Rows are outputs: column j of the file's [in, out].
    EXPECT_EQ(numbers.at({0, TensorKind::kQkvWeight}),
              (std::vector<double>{22, 28, 23, 29, 24, 30, 25, 31, 26, 32, 27, 33}));
    EXPECT_EQ(numbers.at({0, TensorKind::kQkvBias}), From(34, 6));
    EXPECT_EQ(numbers.at({0, TensorKind::kOutWeight}), (std::vector<double>{40, 42, 41, 43}));
    EXPECT_EQ(numbers.at({0, TensorKind::kUpWeight}),
              (std::vector<double>{50, 53, 51, 54, 52, 55}));
    EXPECT_EQ(numbers.at({0, TensorKind::kDownWeight}),
              (std::vector<double>{59, 61, 63, 60, 62, 64}));
    EXPECT_EQ(numbers.at({kNoTag, TensorKind::kFinalNormBias}), From(69, 2));
  }
}

TEST(HuggingFace, ReadsLlamaWithRowsOfQkvAndGateUp) {
  const TestFolder folder;
  const std::string path = folder.File("llama.safetensors");
  ASSERT_TRUE(LlamaFile().Write(path).ok());
  const auto read = ReadHuggingFace(Smallest(LLAMA, false), path, Dtype::kBf16);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().front().dtype, Dtype::kBf16);
  const auto numbers = Numbers(read.value());
  EXPECT_EQ(numbers.at({0, TensorKind::kQkvWeight}),
            (std::vector<double>{46, 47, 48, 49, 38, 39, 40, 41, 50, 51, 52, 53}));
  std::vector<double> gate_up = From(24, 6);
  for (const double up : From(30, 6)) gate_up.push_back(up);
  EXPECT_EQ(numbers.at({0, TensorKind::kUpWeight}), gate_up);
  EXPECT_EQ(numbers.at({0, TensorKind::kDownWeight}), From(18, 6));
  EXPECT_EQ(numbers.at({0, TensorKind::kNorm2Weight}), From(36, 2));
  EXPECT_EQ(numbers.at({kNoTag, TensorKind::kHeadWeight}), From(0, 8));
  EXPECT_EQ(numbers.at({kNoTag, TensorKind::kFinalNormWeight}), From(54, 2));
}

TEST(HuggingFace, ReadsBackWhatItWrote) {
  for (const char* name : {"tiny-gpt", "tiny-gpt-untied", "tiny-llama-gqa", "tiny-llama-tied"}) {
    for (const Dtype dtype : {Dtype::kFp64, Dtype::kFp32, Dtype::kBf16, Dtype::kFp16}) {
      const TestFolder folder;
      const std::string path = folder.File("export.safetensors");
      const Model model = FindModel(name).value();
      const std::vector<LogicalTensor> tensors = NumberedParameters(model, dtype);
      const Status written = WriteHuggingFace(model, tensors, path);
      ASSERT_TRUE(written.ok()) << written.error().message;
      const auto read = ReadHuggingFace(model, path, dtype);
      ASSERT_TRUE(read.ok()) << read.error().message;
      EXPECT_TRUE(SameTensors(read.value(), tensors)) << name << " " << Name(dtype);
    }
  }
}

TEST(HuggingFace, WritesItsOwnNames) {
  const TestFolder folder;
  const std::string path = folder.File("export.safetensors");
  const Model model = Smallest(GPT, false);
  ASSERT_TRUE(WriteHuggingFace(model, NumberedParameters(model, Dtype::kFp32), path).ok());
  const auto file = SafetensorsReader::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value().metadata().at("format"), "pt");
  ASSERT_NE(file.value().Find("transformer.h.0.mlp.c_fc.weight"), nullptr);
  EXPECT_EQ(file.value().Find("transformer.h.0.mlp.c_fc.weight")->shape,
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_NE(file.value().Find("lm_head.weight"), nullptr);
  const auto missing = WriteHuggingFace(model, {}, path);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr("nothing to write as tensor 'transformer.wte"));
}

TEST(HuggingFace, ReadsAFolderOfSeveralFiles) {
  const TestFolder folder;
  FileBuilder second = LlamaFile();
  FileBuilder first;
  first.Add("lm_head.weight", {4, 2});
  second.Remove("lm_head.weight");
  ASSERT_TRUE(first.Write(folder.File("a.safetensors")).ok());
  ASSERT_TRUE(second.Write(folder.File("b.safetensors")).ok());
  WriteBytes(folder.File("model.safetensors.index.json"),
             R"({"weight_map": {"lm_head.weight": "a.safetensors", "other": "b.safetensors"}})");
  WriteBytes(folder.File("config.json"), R"({"rms_norm_eps": 1e-05, "rope_theta": 10000.0})");
  const Model model = Smallest(LLAMA, false);
  const auto read = ReadHuggingFace(model, folder.path(), Dtype::kFp32);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(Numbers(read.value()).at({kNoTag, TensorKind::kFinalNormWeight}), From(54, 2));

  WriteBytes(folder.File("config.json"), R"({"rope_theta": 500000.0})");
  EXPECT_EQ(
      ReadHuggingFace(model, folder.path(), Dtype::kFp32).error().message,
      folder.File("config.json") + ": rope_theta is 500000.0, and training computes with 10000");
  std::filesystem::remove(folder.File("config.json"));
  WriteBytes(folder.File("model.safetensors.index.json"),
             R"({"weight_map": {"x": "../../etc/passwd"}})");
  EXPECT_THAT(ReadHuggingFace(model, folder.path(), Dtype::kFp32).error().message,
              HasSubstr("tensor 'x' has no file name"));
  std::filesystem::remove(folder.File("model.safetensors.index.json"));
  EXPECT_THAT(ReadHuggingFace(model, folder.path(), Dtype::kFp32).error().message,
              HasSubstr("model.safetensors: cannot open"));
}

TEST(HuggingFace, ErrorsNameFileAndTensor) {
  const TestFolder folder;
  const std::string path = folder.File("x.safetensors");
  const auto error = [&path](const FileBuilder& file, const Model& model) {
    EXPECT_TRUE(file.Write(path).ok());
    const auto read = ReadHuggingFace(model, path, Dtype::kFp32);
    EXPECT_FALSE(read.ok());
    return read.ok() ? std::string() : read.error().message;
  };
  FileBuilder missing = Gpt2File("transformer.");
  missing.Remove("transformer.h.0.mlp.c_fc.bias");
  EXPECT_EQ(error(missing, Smallest(GPT, true)),
            path + ": tensor 'transformer.h.0.mlp.c_fc.bias' is missing");
  EXPECT_EQ(error(Gpt2File(""), Smallest(GPT, false)),
            path + ": tensor 'lm_head.weight' is missing");
  Model wider = Smallest(GPT, true);
  wider.set_ffn_hidden_size(4);
  EXPECT_EQ(error(Gpt2File(""), wider), path +
                                            ": tensor 'h.0.mlp.c_fc.weight' is F32 [2, 3], and "
                                            "model smallest has floats [2, 4]");
  FileBuilder deeper = Gpt2File("");
  deeper.Add("h.1.ln_1.weight", {2});
  EXPECT_EQ(error(deeper, Smallest(GPT, true)),
            path + ": tensor 'h.1.ln_1.weight' has no place in model smallest of 1 layers");
  // The file's head differs from its embedding.
  EXPECT_THAT(error(LlamaFile(), Smallest(LLAMA, true)), HasSubstr("differs from the embedding"));
}

}  // namespace
}  // namespace twinstep
