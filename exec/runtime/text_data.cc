#include "exec/runtime/text_data.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <utility>

#include "exec/runtime/safetensors_header.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Of [0, limit), by rejection. (std::uniform_int_distribution differs between libraries.)
std::uint64_t Below(std::mt19937_64* random, std::uint64_t limit) {
  const std::uint64_t surplus = (~std::uint64_t{0} % limit + 1) % limit;
  while (true) {
    const std::uint64_t drawn = (*random)();
    if (drawn <= ~std::uint64_t{0} - surplus) return drawn % limit;
  }
}

}  // namespace

Status CheckByteVocabulary(std::int64_t vocabulary) {
  constexpr std::int64_t kByteValues = 256;
  if (vocabulary >= kByteValues) return Unit{};
  return Error{.message = StrCat("a text's bytes need a vocabulary of ", kByteValues,
                                 ", and the model has ", vocabulary)};
}

Result<TextData> TextData::Open(const std::string& path, const TextDataOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return Error{.message = StrCat(path, ": is not a file that can be read")};
  }
  std::ifstream file(path, std::ios::binary);
  const auto size = std::filesystem::file_size(path, error);
  if (!file || error)
    return Error{.message = StrCat(path, ": cannot open: ", std::strerror(errno))};
  std::vector<std::byte> text(size);
  file.read(reinterpret_cast<char*>(text.data()), static_cast<std::streamsize>(size));
  if (!file) return Error{.message = StrCat(path, ": cannot read all of its ", size, " bytes")};
  if (static_cast<std::int64_t>(size) <= options.sequence_length) {
    return Error{.message = StrCat(path, ": ", size, " bytes are too few for one sequence of ",
                                   options.sequence_length, " tokens and the label of its last")};
  }
  return TextData(std::move(text), options);
}

TextData::TextData(std::vector<std::byte> text, const TextDataOptions& options)
    : text_(std::move(text)),
      options_(options),
      checksum_(Crc32(text_)),
      order_(static_cast<std::size_t>((bytes() - 1) / options.sequence_length)) {}

void TextData::Shuffle(std::int64_t epoch) {
  epoch_ = epoch;
  std::seed_seq seeds{static_cast<std::uint32_t>(options_.seed),
                      static_cast<std::uint32_t>(options_.seed >> 32),
                      static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)};
  std::mt19937_64 random(seeds);
  const std::int64_t left_over = bytes() - 1 - sequences_per_epoch() * options_.sequence_length;
  first_ = static_cast<std::int64_t>(Below(&random, static_cast<std::uint64_t>(left_over + 1)));
  std::iota(order_.begin(), order_.end(), 0);
  for (std::size_t i = order_.size(); i > 1; --i) {
    std::swap(order_[i - 1], order_[Below(&random, i)]);
  }
}

TokenBatch TextData::Batch(std::int64_t step, std::int64_t sequences) {
  TokenBatch batch;
  const auto tokens = static_cast<std::size_t>(sequences * options_.sequence_length);
  batch.tokens.reserve(tokens);
  batch.labels.reserve(tokens);
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t sequence = step * sequences + i;
    const std::int64_t epoch = sequence / sequences_per_epoch();
    if (epoch != epoch_) Shuffle(epoch);
    const std::int64_t index = order_[static_cast<std::size_t>(sequence % sequences_per_epoch())];
    const std::int64_t begin = first_ + index * options_.sequence_length;
    for (std::int64_t k = begin; k < begin + options_.sequence_length; ++k) {
      batch.tokens.push_back(std::to_integer<std::int32_t>(text_[static_cast<std::size_t>(k)]));
      batch.labels.push_back(std::to_integer<std::int32_t>(text_[static_cast<std::size_t>(k + 1)]));
    }
  }
  return batch;
}

}  // namespace twinstep
