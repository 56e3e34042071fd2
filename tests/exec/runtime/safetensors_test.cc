#include "exec/runtime/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <random>
#include <string>

#include "exec/runtime/safetensors_header.h"
#include "sim/files/atomic_file.h"
#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

std::vector<std::byte> Bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A file as another program writes it: no sums.
std::string Plain(const std::string& json, const std::string& data) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(json.size() >> (8 * i) & 255);
  return length + json + data;
}

struct Contents {
  std::vector<std::vector<std::byte>> data;
  SafetensorsMetadata metadata;
  std::vector<std::string> names;
  bool operator==(const Contents&) const = default;
};

// Everything in a file; the error's message if any of it is refused.
std::optional<Contents> ReadAll(const std::string& path, std::string* message) {
  const auto file = SafetensorsReader::Open(path);
  if (!file.ok()) {
    *message = file.error().message;
    return std::nullopt;
  }
  Contents contents{.data = {}, .metadata = file.value().metadata(), .names = {}};
  for (const TensorEntry& entry : file.value().tensors()) {
    auto data = file.value().Read(entry);
    if (!data.ok()) {
      *message = data.error().message;
      return std::nullopt;
    }
    contents.data.push_back(std::move(data).value());
    contents.names.push_back(entry.name);
  }
  return contents;
}

Status WriteExample(const std::string& path) {
  const auto weights = Bytes("0123456789abcdefghijklmn");
  const auto bias = Bytes("ABCDEFGH");
  const std::vector<TensorView> tensors = {
      {.name = "weight", .dtype = "F32", .shape = {2, 3}, .data = weights},
      {.name = "empty", .dtype = "F64", .shape = {0, 5}, .data = {}},
      {.name = "bias \"quoted\"", .dtype = "BF16", .shape = {4}, .data = bias}};
  return WriteSafetensors(path, tensors, {{"step", "7"}, {"text", "\"header_crc32\":\"12345678"}});
}

// The layout that the format's documentation describes.
TEST(Safetensors, ReadsAFileOfAnotherWriter) {
  const TestFolder folder;
  const std::string path = folder.File("plain.safetensors");
  WriteBytes(path, Plain(R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},)"
                         R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                         R"("__metadata__":{"format":"pt"}}   )",
                         "wxyzABC"));
  const auto file = SafetensorsReader::Open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file.value().tensors().size(), 2u);
  EXPECT_EQ(file.value().tensors()[0].name, "a");
  EXPECT_EQ(file.value().metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  EXPECT_FALSE(file.value().is_checksummed());
  const TensorEntry* b = file.value().Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(file.value().Read(*b).value(), Bytes("ABC"));
  EXPECT_EQ(file.value().Find("c"), nullptr);
}

TEST(Safetensors, ReadsWhatItWrote) {
  const TestFolder folder;
  const std::string path = folder.File("own.safetensors");
  const Status written = WriteExample(path);
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_FALSE(std::filesystem::exists(TemporaryPath(path)));
  const auto file = SafetensorsReader::Open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE(file.value().is_checksummed());
  EXPECT_EQ(file.value().metadata().at("step"), "7");
  EXPECT_EQ(file.value().metadata().size(), 2u);
  const TensorEntry* weight = file.value().Find("weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->dtype, "F32");
  EXPECT_EQ(weight->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.value().Read(*weight).value(), Bytes("0123456789abcdefghijklmn"));
  EXPECT_EQ(file.value().Read(*file.value().Find("bias \"quoted\"")).value(), Bytes("ABCDEFGH"));
  EXPECT_TRUE(file.value().Read(*file.value().Find("empty")).value().empty());
  // Data are aligned to 8 bytes, as the format asks.
  EXPECT_EQ((ReadBytes(path).size() - 32) % 8, 0u);
}

TEST(Safetensors, SameInputGivesTheSameBytes) {
  const TestFolder folder;
  ASSERT_TRUE(WriteExample(folder.File("a")).ok());
  ASSERT_TRUE(WriteExample(folder.File("b")).ok());
  EXPECT_EQ(ReadBytes(folder.File("a")), ReadBytes(folder.File("b")));
}

TEST(Safetensors, Crc32IsZlibs) {
  // The check value of CRC-32/ISO-HDLC.
  EXPECT_EQ(Crc32(Bytes("123456789")), "cbf43926");
  EXPECT_EQ(Crc32({}), "00000000");
}

TEST(Safetensors, WriterRefusesWhatContradictsItself) {
  const TestFolder folder;
  const auto data = Bytes("1234");
  const TensorView good{.name = "a", .dtype = "F32", .shape = {1}, .data = data};
  const TensorView bad{.name = "b", .dtype = "F32", .shape = {2}, .data = data};
  for (const auto& tensors : {std::vector{good, good}, std::vector{good, bad}}) {
    const Status written = WriteSafetensors(folder.File("x"), tensors, {});
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, ExitCode::kInternal);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.File("x")));
}

TEST(Safetensors, MissingFolderIsNamed) {
  const Status written = WriteExample("/nowhere/at/all.safetensors");
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().message, HasSubstr("/nowhere/at/all.safetensors: cannot write"));
}

struct Refused {
  const char* what;
  std::string bytes;
  const char* reason;
};

TEST(Safetensors, RefusesBadFilesWithTheirNameAndTheReason) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::vector<Refused> cases = {
      {"empty", "", "is truncated: 0 bytes"},
      {"no json", Plain("hello", ""), "not a JSON object"},
      {"array", Plain("[]", ""), "not a JSON object"},
      {"long header", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), "no safetensors file"},
      {"cut header", Plain("{\"a\"", "").substr(0, 10), "does not fit"},
      {"cut data", Plain("{" + a + "}", "123"), "bytes 0 to 4 of 3"},
      {"more data", Plain("{" + a + "}", "12345"), "end at byte 4 of 5"},
      {"overlap",
       Plain("{" + a + R"(,"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})", "12345"),
       "tensor 'b' begins at byte 2, inside of another"},
      {"hole",
       Plain("{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", "123456"),
       "behind a hole"},
      {"shape", Plain(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
       "4 bytes where type and shape need 8"},
      {"negative", Plain(R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", "1234"),
       "a size that is not a whole number"},
      {"fraction", Plain(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4.0]}})", "1234"),
       "offsets that are not whole numbers"},
      {"huge",
       Plain(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
             "1234"),
       "shape above 2^63 bytes"},
      {"backward", Plain(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[3,1]}})", "1234"),
       "bytes 3 to 1"},
      {"type", Plain(R"({"a":{"dtype":"F31","shape":[4],"data_offsets":[0,4]}})", "1234"),
       "unknown type 'F31'"},
      {"field", Plain(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", "1234"),
       "a field 'x'"},
      {"no shape", Plain(R"({"a":{"dtype":"U8","data_offsets":[0,4]}})", "1234"), "has no shape"},
      {"not an object", Plain(R"({"a":3})", ""), "not described by an object"},
      {"twice", Plain("{" + a + "," + a + "}", "1234"), "the name 'a' twice"},
      {"field twice",
       Plain(R"({"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})", ""),
       "the name 'dtype' twice"},
      {"metadata", Plain(R"({"__metadata__":{"step":7}})", ""), "'step' is not a string"},
      {"deep", Plain(std::string(100'000, '['), ""), "nested too deeply"},
  };
  const TestFolder folder;
  for (const Refused& refused : cases) {
    const std::string path = folder.File("bad.safetensors");
    WriteBytes(path, refused.bytes);
    std::string message;
    EXPECT_FALSE(ReadAll(path, &message)) << refused.what;
    EXPECT_THAT(message, HasSubstr(refused.reason)) << refused.what;
    EXPECT_THAT(message, testing::StartsWith(path + ": ")) << refused.what;
  }
  std::string message;
  EXPECT_FALSE(ReadAll(folder.path(), &message));
  EXPECT_THAT(message, HasSubstr("not a regular file"));
  EXPECT_FALSE(ReadAll(folder.File("none"), &message));
  EXPECT_THAT(message, HasSubstr("No such file"));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const TestFolder folder;
  const std::string path = folder.File("x");
  ASSERT_TRUE(WriteExample(path).ok());
  const std::string whole = ReadBytes(path);
  std::string message;
  ASSERT_TRUE(ReadAll(path, &message)) << message;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    WriteBytes(path, whole.substr(0, size));
    EXPECT_FALSE(ReadAll(path, &message)) << size << " bytes of " << whole.size();
  }
}

// A CRC finds every burst of up to 32 bits; no single changed byte may go unnoticed.
TEST(Safetensors, EveryChangedByteIsRefused) {
  const TestFolder folder;
  const std::string path = folder.File("x");
  ASSERT_TRUE(WriteExample(path).ok());
  const std::string whole = ReadBytes(path);
  std::mt19937 random(1);
  std::string message;
  int unnoticed = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ static_cast<char>(1 + random() % 255));
    WriteBytes(path, changed);
    const auto file = SafetensorsReader::Open(path);
    // What destroys the header sum's own name leaves a file that is not guarded, which a checkpoint
    // refuses.
    if (file.ok() && !file.value().is_checksummed()) continue;
    if (ReadAll(path, &message)) ++unnoticed;
  }
  EXPECT_EQ(unnoticed, 0);
}

// One to four changes: of bytes, insertions, cuts.
std::string Mutate(std::string bytes, std::mt19937* random) {
  const std::string interesting = "{}[]\",:0123456789-eE.\\ \xff";
  for (unsigned change = 0, changes = 1 + (*random)() % 4; change < changes; ++change) {
    const std::size_t at = (*random)() % bytes.size();
    switch ((*random)() % 4) {
      case 0:
        bytes[at] = interesting[(*random)() % interesting.size()];
        break;
      case 1:
        bytes.insert(at, 1, interesting[(*random)() % interesting.size()]);
        break;
      case 2:
        bytes.erase(at, 1 + (*random)() % 8);
        break;
      default:
        bytes[at] = static_cast<char>((*random)());
    }
    if (bytes.empty()) bytes = "x";
  }
  return bytes;
}

constexpr const char* kPlainHeader = R"({"a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]},)"
                                     R"("b":{"dtype":"F16","shape":[1],"data_offsets":[4,6]}})";

// Never a crash, and what is accepted is consistent.
TEST(Safetensors, MutatedHeadersAreRefusedOrCoverTheData) {
  std::mt19937 random(3);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto header = ParseSafetensorsHeader(Mutate(kPlainHeader, &random), 6);
    if (!header.ok()) {
      EXPECT_NE(header.error().message, "");
      continue;
    }
    ++accepted;
    std::int64_t end = 0;
    for (const TensorEntry& entry : header.value().tensors) {
      EXPECT_EQ(entry.begin, end);
      end = entry.end;
    }
    EXPECT_EQ(end, 6);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 19'000);
}

TEST(Safetensors, MutatedFilesAreRefusedOrReadable) {
  const TestFolder folder;
  const std::string path = folder.File("x");
  ASSERT_TRUE(WriteExample(path).ok());
  const std::vector<std::string> seeds = {ReadBytes(path), Plain(kPlainHeader, "123456")};
  std::mt19937 random(2);
  int accepted = 0;
  for (int round = 0; round < 300; ++round) {
    const std::string bytes = Mutate(seeds[random() % seeds.size()], &random);
    WriteBytes(path, bytes);
    std::string message;
    const auto contents = ReadAll(path, &message);
    if (!contents) {
      EXPECT_THAT(message, testing::StartsWith(path + ": "));
      continue;
    }
    ++accepted;
    std::size_t data_bytes = 0;
    for (const auto& data : contents->data) data_bytes += data.size();
    EXPECT_LE(data_bytes, bytes.size());
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace twinstep
