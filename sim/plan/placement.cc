#include "sim/plan/placement.h"

#include <string_view>

namespace twinstep {
namespace {

enum Dimension : std::size_t { kTpDim, kCpDim, kDpDim, kPpDim };

// Index of a dimension's name in the order tp, cp, dp, pp; 4 for anything else.
std::size_t DimensionOf(std::string_view name) {
  if (name == "tp") return kTpDim;
  if (name == "cp") return kCpDim;
  if (name == "dp") return kDpDim;
  if (name == "pp") return kPpDim;
  return 4;
}

}  // namespace

Placement::Placement(const ResolvedPlan& plan, std::int64_t gpus_per_node)
    : gpus_(plan.t * plan.c * plan.d * plan.p),
      gpus_per_node_(gpus_per_node < 1 ? 1 : gpus_per_node),
      size_{plan.t, plan.c, plan.d, plan.p},
      stride_{} {
  std::int64_t stride = 1;
  const auto place = [&](std::size_t dimension) {
    if (dimension >= size_.size() || stride_[dimension] != 0) return;
    stride_[dimension] = stride;
    stride *= size_[dimension];
  };
  std::string_view rest = plan.rank_order;
  while (!rest.empty()) {
    const std::size_t dash = rest.find('-');
    place(DimensionOf(rest.substr(0, dash)));
    rest = dash == std::string_view::npos ? std::string_view() : rest.substr(dash + 1);
  }
  // ResolvePlan lets only complete orders pass; what another caller left out goes outermost.
  for (std::size_t dimension = 0; dimension < size_.size(); ++dimension) place(dimension);
}

Coordinates Placement::CoordinatesOf(std::int64_t global_rank) const {
  const auto at = [&](std::size_t dimension) {
    return global_rank / stride_[dimension] % size_[dimension];
  };
  return {.tp = at(kTpDim), .cp = at(kCpDim), .dp = at(kDpDim), .pp = at(kPpDim)};
}

std::int64_t Placement::RankOf(const Coordinates& at) const {
  return at.tp * stride_[kTpDim] + at.cp * stride_[kCpDim] + at.dp * stride_[kDpDim] +
         at.pp * stride_[kPpDim];
}

std::vector<std::uint32_t> Placement::GroupOf(std::int64_t global_rank, GroupKind kind) const {
  const Coordinates at = CoordinatesOf(global_rank);
  std::vector<std::uint32_t> members;
  const auto add = [&](const Coordinates& member) {
    members.push_back(static_cast<std::uint32_t>(RankOf(member)));
  };
  // All members along one dimension, the other coordinates as given.
  const auto line = [&](Coordinates from, std::int64_t Coordinates::*axis, std::size_t dimension) {
    for (from.*axis = 0; from.*axis < size_[dimension]; ++(from.*axis)) add(from);
  };
  switch (kind) {
    case GroupKind::kTp:
      line(at, &Coordinates::tp, kTpDim);
      break;
    case GroupKind::kCp:
      line(at, &Coordinates::cp, kCpDim);
      break;
    case GroupKind::kDp:
      line(at, &Coordinates::dp, kDpDim);
      break;
    case GroupKind::kDpCp: {
      Coordinates from = at;
      for (from.dp = 0; from.dp < size_[kDpDim]; ++from.dp) line(from, &Coordinates::cp, kCpDim);
      break;
    }
    case GroupKind::kWorld:
      for (std::int64_t rank = 0; rank < gpus_; ++rank) {
        members.push_back(static_cast<std::uint32_t>(rank));
      }
      break;
    case GroupKind::kEmbedding: {
      Coordinates end = at;
      end.pp = 0;
      add(end);
      if (size_[kPpDim] > 1) {
        end.pp = size_[kPpDim] - 1;
        add(end);
      }
      break;
    }
  }
  return members;
}

}  // namespace twinstep
