// Training data: a text file cut into sequences of tokens, in an order that only the seed decides.
//
//   Result<TextData> data = TextData::Open("README.md", {.sequence_length = 128, .seed = 1});
//   TokenBatch batch = data.value().Batch(/*step=*/7, /*sequences=*/16);
//
// A token is a byte. The text is cut into floor((bytes - 1) / sequence_length) sequences; a label
// is the token that follows. Each epoch visits all of them once, shuffled anew, and begins its cuts
// elsewhere within the bytes that are left over. A batch runs on into the next epoch. No plan
// changes what is in a batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// An Error (kBadInput) if a model's vocabulary has no token for each of the bytes' 256 values.
Status CheckByteVocabulary(std::int64_t vocabulary);

struct TextDataOptions {
  std::int64_t sequence_length = 0;
  std::uint64_t seed = 0;
};

// Rows of sequence_length each.
struct TokenBatch {
  std::vector<std::int32_t> tokens, labels;
};

class TextData {
 public:
  // The whole file is held in memory. An Error (kBadInput) names the file, also where it is shorter
  // than one sequence and the token behind it.
  static Result<TextData> Open(const std::string& path, const TextDataOptions& options);

  // The sequences that step 0, 1, ... trains on.
  TokenBatch Batch(std::int64_t step, std::int64_t sequences);

  std::int64_t bytes() const { return static_cast<std::int64_t>(text_.size()); }
  std::int64_t sequences_per_epoch() const { return static_cast<std::int64_t>(order_.size()); }
  // CRC-32 of the text, eight hexadecimal digits: tells one text from another.
  const std::string& checksum() const { return checksum_; }

 private:
  TextData(std::vector<std::byte> text, const TextDataOptions& options);
  void Shuffle(std::int64_t epoch);

  std::vector<std::byte> text_;
  TextDataOptions options_;
  std::string checksum_;
  std::int64_t epoch_ = -1;  // Of order_ and first_.
  std::vector<std::int64_t> order_;
  std::int64_t first_ = 0;  // Byte at which the epoch's cuts begin.
};

}  // namespace twinstep
