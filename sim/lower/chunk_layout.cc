#include "sim/lower/chunk_layout.h"

#include <algorithm>
#include <array>
#include <string>

#include "sim/format.h"
#include "sim/plan/chunk_size.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Shards begin at multiples of this many elements (256 bytes of two-byte parameters).
constexpr std::int64_t kShardAlignmentElements = 128;

struct ModelUnit {
  std::uint16_t block = 0;
  const ChunkLayout* layout = nullptr;
};

enum Category {
  kPartial,
  kWholeUndecayed,
  kSplitUndecayed,
  kWholeDecayed,
  kSplitDecayed,
  kTiedCopy
};
constexpr int kCategoryCount = 6;

Category CategoryOf(const ChunkLayout& layout, std::int64_t offset) {
  if (offset >= layout.tied_copy_begin) return kTiedCopy;
  if (offset < layout.partial_elements) return kPartial;
  const bool whole = offset < layout.replicated_elements;
  if (offset < layout.undecayed_elements) return whole ? kWholeUndecayed : kSplitUndecayed;
  return whole ? kWholeDecayed : kSplitDecayed;
}

StateChunk MakeChunk(std::span<const ModelUnit> units, bool tied_embeddings) {
  StateChunk chunk;
  std::array<std::int64_t, kCategoryCount> end{};
  for (int category = 0; category < kCategoryCount; ++category) {
    for (const ModelUnit& unit : units) {
      for (const ParameterTensor& tensor : unit.layout->tensors) {
        if (CategoryOf(*unit.layout, tensor.offset) != category) continue;
        ParameterTensor placed = tensor;
        placed.offset = chunk.used_elements;
        chunk.tensors.push_back({.block = unit.block, .tensor = placed});
        chunk.used_elements += tensor.elements();
      }
    }
    end[static_cast<std::size_t>(category)] = chunk.used_elements;
  }
  for (const ModelUnit& unit : units) {
    chunk.blocks.push_back(unit.block);
    chunk.holds_tied_copy |= tied_embeddings && unit.layout->kind != ChunkKind::kBlock;
  }
  chunk.partial_elements = end[kPartial];
  chunk.undecayed_elements = end[kSplitUndecayed];
  // Tensors that every tensor-parallel rank holds count on the first.
  const std::int64_t undecayed = chunk.undecayed_elements;
  if (end[kWholeDecayed] == undecayed) {
    chunk.counted_first = {{0, end[kSplitDecayed]}};
    chunk.counted_others = {{end[kWholeUndecayed], end[kSplitDecayed]}};
  } else {
    chunk.counted_first = {{0, undecayed}, {undecayed, end[kSplitDecayed]}};
    chunk.counted_others = {{end[kWholeUndecayed], undecayed},
                            {end[kWholeDecayed], end[kSplitDecayed]}};
  }
  return chunk;
}

std::string NameOf(const ModelUnit& unit) {
  switch (unit.layout->kind) {
    case ChunkKind::kEmbedding:
      return "the embedding";
    case ChunkKind::kHead:
      return "the head";
    case ChunkKind::kBlock:
      break;
  }
  return StrCat("block ", unit.block);
}

// By global stage.
std::vector<std::vector<ModelUnit>> UnitsOfStages(const Model& model, const ResolvedPlan& plan,
                                                  const ChunkLayouts& layouts) {
  std::vector<std::vector<ModelUnit>> stages(static_cast<std::size_t>(plan.p * plan.v));
  const auto block = [](std::int64_t tag) { return static_cast<std::uint16_t>(tag); };
  stages.front().push_back({block(model.layers() + 1), &layouts.embedding});
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (std::int64_t j = 0; j < plan.l; ++j) {
      stages[stage].push_back(
          {block(static_cast<std::int64_t>(stage) * plan.l + j), &layouts.block});
    }
  }
  stages.back().push_back({block(model.layers()), &layouts.head});
  return stages;
}

Result<std::int64_t> ChunkBytes(const std::vector<std::vector<std::int64_t>>& stage_bytes,
                                std::int64_t asked, std::int64_t alignment_bytes) {
  if (asked > 0) return (asked + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  std::vector<std::int64_t> all;
  for (const auto& stage : stage_bytes) all.insert(all.end(), stage.begin(), stage.end());
  const Result<ChunkSizeSearch> search =
      SearchChunkSize(all, ChunkGrid{.alignment_bytes = alignment_bytes});
  if (!search.ok()) return search.error();
  return search.value().best.chunk_bytes;
}

// An error of PackChunks, with the pipeline rank and the unit of which it speaks.
Error OfUnit(Error error, const std::vector<ModelUnit>& units,
             const std::vector<std::int64_t>& unit_bytes, std::int64_t chunk_bytes,
             std::int64_t pp) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (unit_bytes[i] <= chunk_bytes) continue;
    error.rank = pp;
    error.message =
        StrCat("pipeline rank ", pp, ", ", NameOf(units[i]), ": ", std::move(error.message));
    break;
  }
  return error;
}

Status CheckBuffers(const ResolvedPlan& plan, const RankChunks& rank, bool holds_tied,
                    std::int64_t pp) {
  // In turn one computes, one is filled, one is emptied.
  constexpr std::int64_t kLeast = 3;
  const std::int64_t needed = std::min(rank.streaming(), kLeast + (holds_tied ? 1 : 0));
  if (plan.chunks.buffers >= needed) return Unit{};
  std::string why = StrCat("at least ", kLeast,
                           " buffers: one computes while another is filled and a third is emptied");
  if (holds_tied) {
    why = StrCat(
        "a fourth buffer: the tied embedding's gradient stays in its own from the head's "
        "backward to the embedding's (with --persist 1 it stays on the GPU instead)");
  }
  return Error{.code = ExitCode::kNo,
               .message = StrCat("chunk_buffers is ", plan.chunks.buffers, ": the ",
                                 rank.streaming(), " chunks of pipeline rank ", pp,
                                 " that stream from host memory need ", why),
               .rule = "chunk-buffers",
               .rank = pp};
}

}  // namespace

bool GradientsInPlace(const ResolvedPlan& plan, const LocalShapes& shapes) {
  return plan.m == 1 && plan.p == 1 && shapes.gradient_dtype == shapes.dtype;
}

Result<std::vector<RankChunks>> LayOutChunks(const Model& model, const ResolvedPlan& plan,
                                             const LocalShapes& shapes,
                                             const ChunkLayouts& layouts) {
  const std::vector<std::vector<ModelUnit>> stages = UnitsOfStages(model, plan, layouts);
  const std::int64_t element_bytes = DtypeBytes(shapes.dtype);
  std::vector<std::vector<std::int64_t>> stage_bytes(stages.size());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (const ModelUnit& unit : stages[stage]) {
      stage_bytes[stage].push_back(unit.layout->used_elements * element_bytes);
    }
  }
  const std::int64_t alignment_bytes = kShardAlignmentElements * plan.d * plan.c * element_bytes;
  const Result<std::int64_t> chunk_bytes =
      ChunkBytes(stage_bytes, plan.chunks.chunk_bytes, alignment_bytes);
  if (!chunk_bytes.ok()) return chunk_bytes.error();

  std::vector<RankChunks> ranks(static_cast<std::size_t>(plan.p));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const std::size_t pp = stage % ranks.size();
    const Result<ChunkPacking> packing = PackChunks(stage_bytes[stage], chunk_bytes.value());
    if (!packing.ok()) {
      return OfUnit(packing.error(), stages[stage], stage_bytes[stage], chunk_bytes.value(),
                    static_cast<std::int64_t>(pp));
    }
    for (const ChunkRange& range : packing.value().chunks) {
      ranks[pp].chunks.push_back(
          MakeChunk(std::span(stages[stage]).subspan(range.begin, range.end - range.begin),
                    model.tied_embeddings() && plan.p > 1));
    }
  }
  const auto fullest = std::ranges::max_element(
      ranks, {}, [](const RankChunks& rank) { return rank.chunks.size(); });
  const auto most = static_cast<std::int64_t>(fullest->chunks.size());
  if (plan.chunks.persistent > most) {
    const std::int64_t pp = fullest - ranks.begin();
    return Error{.code = ExitCode::kNo,
                 .message = StrCat("persistent_chunks is ", plan.chunks.persistent,
                                   ": pipeline rank ", pp, ", which has the most, has ",
                                   CountOf(most, "chunk"), " of ", chunk_bytes.value(), " bytes"),
                 .rule = "chunk-count",
                 .rank = pp};
  }
  for (std::size_t pp = 0; pp < ranks.size(); ++pp) {
    RankChunks& rank = ranks[pp];
    rank.elements = chunk_bytes.value() / element_bytes;
    rank.persistent =
        std::min(plan.chunks.persistent, static_cast<std::int64_t>(rank.chunks.size()));
    rank.buffers = std::min(plan.chunks.buffers, rank.streaming());
    rank.gradients_in_place = GradientsInPlace(plan, shapes);
    const bool holds_tied =
        model.tied_embeddings() && rank.gradients_in_place && rank.persistent == 0;
    const Status fits = CheckBuffers(plan, rank, holds_tied, static_cast<std::int64_t>(pp));
    if (!fits.ok()) return fits.error();
  }
  return ranks;
}

}  // namespace twinstep
