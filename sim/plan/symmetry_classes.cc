// Colour refinement on the hypergraph of ranks. Every hyperedge that a flow or a rendezvous can
// make two ranks meet in is one: groups, the part of a group inside one node or below one uplink,
// pipeline neighbours, and the shared resources (NIC port, uplink, node = host DRAM). A rank's
// next colour is a hash of its own colour and of the multisets of colours on its edges; a multiset
// hashes to the wrapping sum of its mixed colours. With 64-bit hashes of at most some thousand
// ranks an accidental collision is out of reach (probability below 1e-12).
#include <algorithm>
#include <unordered_map>

#include "sim/plan/node_layout.h"
#include "sim/plan/placement.h"

namespace twinstep {
namespace {

using Colour = std::uint64_t;

// Finaliser of splitmix64: every input bit reaches every output bit.
Colour Mix(Colour x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A partition of ranks into hyperedges of one kind: edge_of[rank] counts from 0.
struct Edges {
  std::vector<std::uint32_t> edge_of;
  std::uint32_t count = 0;
};

// Numbers the distinct keys in order of first appearance.
template <typename Key>
Edges EdgesByKey(std::int64_t ranks, const Key& key) {
  Edges edges;
  edges.edge_of.reserve(static_cast<std::size_t>(ranks));
  std::unordered_map<std::uint64_t, std::uint32_t> ids;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto [at, is_new] = ids.try_emplace(key(rank), edges.count);
    if (is_new) ++edges.count;
    edges.edge_of.push_back(at->second);
  }
  return edges;
}

// A group kind: groups, and the cells that nodes (and uplinks) cut them into.
struct GroupEdges {
  Edges groups, cells;
  std::vector<std::uint32_t> group_of_cell;
};

// A neighbour in the pipeline, and how near it lies (1 same node, 2 same uplink).
struct Neighbours {
  std::vector<std::uint32_t> rank;
  std::vector<std::uint8_t> nearness;
};

class Refinement {
 public:
  Refinement(const Placement& placement, const ResolvedPlan& plan, const Cluster& cluster)
      : placement_(placement), plan_(plan), layout_(cluster), ranks_(placement.gpus()) {
    const auto count = static_cast<std::size_t>(ranks_);
    colour_.resize(count);
    coordinates_.reserve(count);
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      coordinates_.push_back(placement.CoordinatesOf(rank));
    }
    AddResources();
    AddGroups();
    AddPipeline();
  }

  RankClasses Run() {
    for (std::size_t rank = 0; rank < colour_.size(); ++rank) {
      colour_[rank] = Mix(static_cast<Colour>(coordinates_[rank].pp));
    }
    std::size_t classes = CountColours();
    for (;;) {
      Step();
      const std::size_t finer = CountColours();
      if (finer == classes) break;  // A step only ever splits classes.
      classes = finer;
    }
    return Number();
  }

 private:
  std::uint64_t UplinkKey(std::int64_t rank) const {
    return static_cast<std::uint64_t>(placement_.NodeOf(rank) * layout_.gpus_per_node() +
                                      layout_.UplinkOf(placement_.LocalIndexOf(rank)));
  }

  void AddResources() {
    resources_.push_back(EdgesByKey(ranks_, [&](std::int64_t rank) {
      return static_cast<std::uint64_t>(placement_.NodeOf(rank));
    }));
    if (layout_.nic_ports() < layout_.gpus_per_node()) {
      resources_.push_back(EdgesByKey(ranks_, [&](std::int64_t rank) {
        return static_cast<std::uint64_t>(placement_.NodeOf(rank) * layout_.nic_ports() +
                                          layout_.NicPortOf(placement_.LocalIndexOf(rank)));
      }));
    }
    if (layout_.gpus_per_uplink() > 1) {
      resources_.push_back(EdgesByKey(ranks_, [&](std::int64_t rank) { return UplinkKey(rank); }));
    }
  }

  void AddGroups() {
    // The world is one edge for all ranks and splits nothing. A group's key is its member with
    // coordinate 0 along the group's dimensions; embedding groups are those of the pipeline
    // column, of which only the ends are members.
    const auto add = [&](std::int64_t size, const auto& project) {
      if (size <= 1) return;
      const auto key = [&](std::int64_t rank) {
        Coordinates at = coordinates_[static_cast<std::size_t>(rank)];
        project(at);
        return static_cast<std::uint64_t>(placement_.RankOf(at));
      };
      const auto ranks = static_cast<std::uint64_t>(ranks_);
      AddCells(EdgesByKey(ranks_, key), EdgesByKey(ranks_, [&](std::int64_t rank) {
                 return key(rank) * ranks + static_cast<std::uint64_t>(placement_.NodeOf(rank));
               }));
      if (layout_.gpus_per_uplink() > 1) {
        AddCells(EdgesByKey(ranks_, key), EdgesByKey(ranks_, [&](std::int64_t rank) {
                   return key(rank) * ranks + UplinkKey(rank);
                 }));
      }
    };
    add(plan_.t, [](Coordinates& at) { at.tp = 0; });
    add(plan_.c, [](Coordinates& at) { at.cp = 0; });
    add(plan_.d, [](Coordinates& at) { at.dp = 0; });
    if (plan_.c > 1 && plan_.d > 1)
      add(plan_.c * plan_.d, [](Coordinates& at) { at.cp = at.dp = 0; });
    add(plan_.p, [](Coordinates& at) { at.pp = 0; });
  }

  void AddCells(Edges groups, Edges cells) {
    GroupEdges edges{.groups = std::move(groups), .cells = std::move(cells), .group_of_cell = {}};
    edges.group_of_cell.resize(edges.cells.count);
    for (std::size_t rank = 0; rank < colour_.size(); ++rank) {
      edges.group_of_cell[edges.cells.edge_of[rank]] = edges.groups.edge_of[rank];
    }
    groups_.push_back(std::move(edges));
  }

  void AddPipeline() {
    if (plan_.p <= 1) return;
    for (const std::int64_t step : {std::int64_t{1}, plan_.p - 1}) {
      Neighbours side;
      for (std::int64_t rank = 0; rank < ranks_; ++rank) {
        Coordinates at = coordinates_[static_cast<std::size_t>(rank)];
        at.pp = (at.pp + step) % plan_.p;
        const std::int64_t peer = placement_.RankOf(at);
        const bool same_node = placement_.NodeOf(rank) == placement_.NodeOf(peer);
        const bool same_uplink = UplinkKey(rank) == UplinkKey(peer);
        side.rank.push_back(static_cast<std::uint32_t>(peer));
        side.nearness.push_back(static_cast<std::uint8_t>(same_uplink ? 2 : same_node ? 1 : 0));
      }
      pipeline_.push_back(std::move(side));
    }
  }

  void Step() {
    std::vector<Colour> next(colour_.size());
    for (std::size_t rank = 0; rank < next.size(); ++rank) next[rank] = Mix(colour_[rank]);
    const std::vector<Colour> mixed = next;
    const auto absorb = [&](std::size_t rank, Colour value) {
      next[rank] = Mix(next[rank] ^ Mix(value + 0x632be59bd9b4e019u));
    };
    const auto sum_edges = [&](const Edges& edges) {
      std::vector<Colour> sums(edges.count);
      for (std::size_t rank = 0; rank < mixed.size(); ++rank) {
        sums[edges.edge_of[rank]] += mixed[rank];
      }
      return sums;
    };
    for (const Edges& edges : resources_) {
      const std::vector<Colour> sums = sum_edges(edges);
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        absorb(rank, sums[edges.edge_of[rank]]);
      }
    }
    for (const GroupEdges& kind : groups_) {
      const std::vector<Colour> cells = sum_edges(kind.cells);
      std::vector<Colour> groups(kind.groups.count);
      for (std::size_t cell = 0; cell < cells.size(); ++cell) {
        groups[kind.group_of_cell[cell]] += Mix(cells[cell]);
      }
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        absorb(rank, cells[kind.cells.edge_of[rank]]);
        absorb(rank, groups[kind.groups.edge_of[rank]]);
      }
    }
    for (const Neighbours& side : pipeline_) {
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        absorb(rank, mixed[side.rank[rank]] + side.nearness[rank]);
      }
    }
    colour_ = std::move(next);
  }

  std::size_t CountColours() const {
    std::vector<Colour> sorted = colour_;
    std::sort(sorted.begin(), sorted.end());
    return static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }

  RankClasses Number() const {
    RankClasses classes;
    classes.class_of.reserve(colour_.size());
    std::unordered_map<Colour, std::uint32_t> ids;
    for (std::size_t rank = 0; rank < colour_.size(); ++rank) {
      const auto [at, is_new] =
          ids.try_emplace(colour_[rank], static_cast<std::uint32_t>(classes.size.size()));
      if (is_new) {
        classes.representative.push_back(static_cast<std::uint32_t>(rank));
        classes.size.push_back(0);
      }
      classes.class_of.push_back(at->second);
      ++classes.size[at->second];
    }
    return classes;
  }

  const Placement& placement_;
  const ResolvedPlan& plan_;
  const NodeLayout layout_;
  const std::int64_t ranks_;
  std::vector<Coordinates> coordinates_;
  std::vector<Colour> colour_;
  std::vector<Edges> resources_;
  std::vector<GroupEdges> groups_;
  std::vector<Neighbours> pipeline_;
};

}  // namespace

RankClasses SymmetryClasses(const Placement& placement, const ResolvedPlan& plan,
                            const Cluster& cluster) {
  return Refinement(placement, plan, cluster).Run();
}

}  // namespace twinstep
