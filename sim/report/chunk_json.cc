#include "sim/report/chunk_json.h"

#include "sim/plan/plan_names.h"

namespace twinstep {
namespace {

using nlohmann::ordered_json;

double ToSeconds(Picoseconds ps) { return static_cast<double>(ps) / kPicosecondsPerSecond; }

void AddSpan(const char* name, const std::optional<Span>& span, ordered_json* json) {
  if (span) {
    (*json)[name] = {{"begin_s", ToSeconds(span->begin_ps)}, {"end_s", ToSeconds(span->end_ps)}};
  }
}

ordered_json ChunkJson(const ChunkReport& x) {
  ordered_json json = {{"chunk", x.chunk},
                       {"blocks", x.blocks},
                       {"lives", x.on_gpu ? "gpu" : "host"},
                       {"parameters", x.parameters},
                       {"uploads", x.uploads},
                       {"uploaded_bytes", x.uploaded_bytes},
                       {"offloaded_bytes", x.offloaded_bytes}};
  AddSpan("first_upload", x.first_upload, &json);
  AddSpan("last_upload", x.last_upload, &json);
  AddSpan("gathered", x.gathered, &json);
  AddSpan("reduced", x.reduced, &json);
  AddSpan("offloaded", x.offloaded, &json);
  AddSpan("updated", x.updated, &json);
  json["exposed_s"] = ToSeconds(x.exposed_ps);
  return json;
}

ordered_json BlockJson(const BlockReport& x) {
  ordered_json json = {{"block", x.block},
                       {"activations", WordFor(x.choice)},
                       {"swapped_bytes", x.swapped_bytes},
                       {"recompute_s", ToSeconds(x.recompute_ps)}};
  AddSpan("out", x.out, &json);
  AddSpan("back", x.back, &json);
  json["exposed_s"] = ToSeconds(x.exposed_ps);
  return json;
}

}  // namespace

ordered_json ToJson(const ChunksOfRank& rank) {
  ordered_json json = {{"rank", rank.global_rank}};
  if (!rank.chunks.empty()) {
    json["chunk_bytes"] = rank.chunk_bytes;
    json["waste_bytes"] = rank.waste_bytes;
    json["buffers"] = rank.buffers;
    json["bytes_per_parameter"] = {{"parameter", rank.parameter_bytes},
                                   {"gradient", rank.gradient_bytes},
                                   {"optimizer", rank.optimizer_bytes}};
    json["chunks"] = ordered_json::array();
    for (const ChunkReport& chunk : rank.chunks) json["chunks"].push_back(ChunkJson(chunk));
  }
  if (!rank.blocks.empty()) {
    json["blocks"] = ordered_json::array();
    for (const BlockReport& block : rank.blocks) json["blocks"].push_back(BlockJson(block));
  }
  return json;
}

}  // namespace twinstep
