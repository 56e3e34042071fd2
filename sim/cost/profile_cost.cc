#include "sim/cost/profile_cost.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "sim/cost/profile_pairs.h"
#include "sim/graph/find_op.h"

namespace twinstep {
namespace {

const Cluster& MeasuredOn(const Profile& profile, const Cluster& simulated) {
  return profile.has_measured_on() ? profile.measured_on() : simulated;
}

double LogDistance(std::int64_t a, std::int64_t b) {
  // Dimensions are positive; one more keeps unused ones (0) at distance 0 and finite.
  return std::log(static_cast<double>(a) + 1) - std::log(static_cast<double>(b) + 1);
}

// How many neighbours a shape takes its correction from, weighted by inverse squared distance.
constexpr std::size_t kNeighbours = 4;
// Of an operator's time: it lets nothing in before it has begun (and 0 says that it is not known).
constexpr double kLeastLetsIn = 0.01;

}  // namespace

MeasuredOperators::MeasuredOperators(const Profile& profile, const OperatorRoofline& now,
                                     int gradient_bytes)
    : now_(now),
      then_(profile.has_measured_on() ? OperatorRoofline(profile.measured_on(), gradient_bytes)
                                      : now) {
  for (const OperatorSample& measured : profile.operators()) {
    const std::optional<OpCode> code = FindOp(measured.op());
    const std::optional<Dtype> dtype = FindDtype(measured.dtype());
    if (!code || !dtype || !(measured.median_s() > 0)) continue;
    OpShape shape{.op = *code,
                  .dtype = *dtype,
                  .flags = static_cast<std::uint16_t>(measured.flags()),
                  .count = static_cast<std::uint16_t>(std::max(1u, measured.count()))};
    const auto count =
        std::min<std::size_t>(shape.dims.size(), static_cast<std::size_t>(measured.dims_size()));
    for (std::size_t i = 0; i < count; ++i) shape.dims[i] = measured.dims(static_cast<int>(i));
    shape = WorkShape(shape);
    const double roofline = then_.Of(shape).seconds;
    Sample sample{
        .sizes = SizesOf(shape), .seconds = measured.median_s(), .correction = Correction()};
    if (roofline > 0 && std::isfinite(roofline)) {
      sample.correction.factor = std::log(sample.seconds / roofline);
    }
    const std::pair<Condition, double> conditions[] = {
        {kBusy, measured.busy_median_s()},
        {kBesideH2D, measured.beside_h2d_s()},
        {kBesideD2H, measured.beside_d2h_s()},
        {kBesideBoth, measured.beside_copies_s()},
        {kBesideCollective, measured.beside_collective_s()},
        {kRested, measured.rested_s()},
        {kRestedBesideH2D, measured.rested_beside_h2d_s()},
        {kRestedBesideD2H, measured.rested_beside_d2h_s()},
        {kRestedBesideBoth, measured.rested_beside_copies_s()},
        {kLetsIn, measured.lets_in_s()}};
    for (const auto& [condition, seconds] : conditions) {
      if (!(seconds > 0)) continue;
      sample.correction.slowdown[condition] = std::log(seconds / sample.seconds);
      sample.correction.has[condition] = true;
    }
    for (const double slowness : measured.gpu_slowness()) {
      sample.correction.gpu_slowness.push_back(std::log(slowness));
    }
    AddTo(&tables_[{measured.op(), measured.dtype(), measured.flags(), measured.on_host(),
                    FusionOf(measured)}],
          sample);
  }
  FindTails();
  ShareSlowdowns();
  ShareProducts();
}

void MeasuredOperators::FindTails() {
  std::map<std::pair<std::string, std::string>, std::vector<double>> tails_s;
  for (const auto& [key, table] : tables_) {
    if (std::get<bool>(key)) continue;
    for (const Sample& sample : table.samples) {
      if (!sample.correction.has[kLetsIn]) continue;
      const double lets_in = std::exp(sample.correction.slowdown[kLetsIn]);
      tails_s[{std::get<0>(key), std::get<1>(key)}].push_back(sample.seconds * (1 - lets_in));
    }
  }
  for (auto& [op, of] : tails_s) {
    const auto middle = of.begin() + static_cast<std::ptrdiff_t>((of.size() - 1) / 2);
    std::ranges::nth_element(of, middle);
    tail_s_[op] = *middle;
  }
}

void MeasuredOperators::AddTo(Table* table, const Sample& sample) {
  if (table->samples.empty()) table->low = table->high = sample.sizes;
  for (std::size_t i = 0; i < kSizes; ++i) {
    table->low[i] = std::min(table->low[i], sample.sizes[i]);
    table->high[i] = std::max(table->high[i], sample.sizes[i]);
  }
  table->samples.push_back(sample);
}

// A sum costs a product little: of sizes that were measured only with or without, the others'
// stand in between neighbours.
void MeasuredOperators::ShareProducts() {
  const auto add_missing = [](const std::vector<Sample>& from, Table* table) {
    const std::size_t own = table->samples.size();
    for (Sample sample : from) {
      const bool has_size = std::any_of(
          table->samples.begin(), table->samples.begin() + static_cast<std::ptrdiff_t>(own),
          [&sample](const Sample& x) { return x.sizes == sample.sizes; });
      if (has_size) continue;
      sample.of_other_part = true;
      AddTo(table, sample);
    }
  };
  for (auto& [key, sums] : tables_) {
    if (std::get<Fusion>(key) != Fusion::kGemmAdd) continue;
    Key alone = key;
    std::get<Fusion>(alone) = Fusion::kAlone;
    const auto products = tables_.find(alone);
    if (products == tables_.end()) continue;
    const std::vector<Sample> with_sum = sums.samples;
    add_missing(products->second.samples, &sums);
    add_missing(with_sum, &products->second);
  }
}

// Parts that few layers have were measured alone only: of its size another kernel of the same
// operator suffers as much.
void MeasuredOperators::ShareSlowdowns() {
  for (auto& [key, table] : tables_) {
    if (IsLaunchedWithPartner(std::get<Fusion>(key))) continue;
    for (const auto& [other_key, other] : tables_) {
      Key same_part = other_key;
      std::get<Fusion>(same_part) = std::get<Fusion>(key);
      if (same_part != key || IsLaunchedWithPartner(std::get<Fusion>(other_key))) continue;
      for (Sample& sample : table.samples) {
        const auto of_size = std::find_if(other.samples.begin(), other.samples.end(),
                                          [&](const Sample& x) { return x.sizes == sample.sizes; });
        if (of_size == other.samples.end()) continue;
        for (std::size_t i = 0; i < kConditions; ++i) {
          if (sample.correction.has[i] || !of_size->correction.has[i]) continue;
          sample.correction.slowdown[i] = of_size->correction.slowdown[i];
          sample.correction.has[i] = true;
        }
      }
    }
  }
}

// The part's own table, or that of another part that launches a kernel.
const MeasuredOperators::Table* MeasuredOperators::FindTable(Key key, bool* of_other_part) const {
  const auto own = tables_.find(key);
  if (own != tables_.end()) return &own->second;
  *of_other_part = true;
  if (IsLaunchedWithPartner(std::get<Fusion>(key))) return nullptr;
  for (int i = 0; i < kFusionCount; ++i) {
    std::get<Fusion>(key) = static_cast<Fusion>(i);
    if (IsLaunchedWithPartner(static_cast<Fusion>(i))) continue;
    if (const auto other = tables_.find(key); other != tables_.end()) return &other->second;
  }
  return nullptr;
}

MeasuredOperators::Sizes MeasuredOperators::SizesOf(const OpShape& shape) {
  Sizes sizes{};
  std::copy(shape.dims.begin(), shape.dims.end(), sizes.begin());
  sizes.back() = shape.count;
  return sizes;
}

MeasuredOperators::Estimate MeasuredOperators::Estimate::OnGpu(std::size_t gpu) const {
  Estimate on_gpu = *this;
  if (gpu >= gpu_slowness.size()) return on_gpu;
  on_gpu.seconds *= gpu_slowness[gpu];
  on_gpu.rested_speedup *= gpu_slowness[gpu];
  return on_gpu;
}

void MeasuredOperators::AddSlowness(double weight, const Correction& of_sample, Correction* sum) {
  if (sum->gpu_slowness.size() != of_sample.gpu_slowness.size()) {
    sum->gpu_slowness.clear();
    return;
  }
  for (std::size_t gpu = 0; gpu < sum->gpu_slowness.size(); ++gpu) {
    sum->gpu_slowness[gpu] += weight * of_sample.gpu_slowness[gpu];
  }
}

MeasuredOperators::Correction MeasuredOperators::Interpolate(const Table& table,
                                                             const Sizes& sizes) {
  // Neighbours below and above along a single dimension: a straight line between them.
  for (std::size_t axis = 0; axis < kSizes; ++axis) {
    const Sample* below = nullptr;
    const Sample* above = nullptr;
    for (const Sample& sample : table.samples) {
      bool on_axis = true;
      for (std::size_t i = 0; i < kSizes; ++i) {
        on_axis = on_axis && (i == axis || sample.sizes[i] == sizes[i]);
      }
      if (!on_axis) continue;
      const std::int64_t at = sample.sizes[axis];
      if (at <= sizes[axis] && (below == nullptr || at > below->sizes[axis])) below = &sample;
      if (at >= sizes[axis] && (above == nullptr || at < above->sizes[axis])) above = &sample;
    }
    if (below == nullptr || above == nullptr) continue;
    if (below->sizes[axis] == above->sizes[axis]) return below->correction;
    const double part = LogDistance(sizes[axis], below->sizes[axis]) /
                        LogDistance(above->sizes[axis], below->sizes[axis]);
    const auto line = [part](double low, double high) { return low + (high - low) * part; };
    const Correction &low = below->correction, &high = above->correction;
    Correction between{.factor = line(low.factor, high.factor)};
    for (std::size_t i = 0; i < kConditions; ++i) {
      between.slowdown[i] = line(low.slowdown[i], high.slowdown[i]);
      between.has[i] = low.has[i] && high.has[i];
    }
    between.gpu_slowness.resize(low.gpu_slowness.size());
    AddSlowness(1 - part, low, &between);
    AddSlowness(part, high, &between);
    return between;
  }
  // By squared distance, then in the profile's order.
  std::vector<std::pair<double, std::size_t>> near;
  near.reserve(table.samples.size());
  for (std::size_t at = 0; at < table.samples.size(); ++at) {
    double distance = 0;
    for (std::size_t i = 0; i < kSizes; ++i) {
      const double d = LogDistance(sizes[i], table.samples[at].sizes[i]);
      distance += d * d;
    }
    near.emplace_back(distance, at);
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min(kNeighbours, near.size()));
  std::partial_sort(near.begin(), near.begin() + count, near.end());
  Correction mean;
  mean.has.fill(true);
  mean.gpu_slowness.resize(table.samples[near.front().second].correction.gpu_slowness.size());
  double weights = 0;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto& [distance, at] = near[static_cast<std::size_t>(i)];
    const Correction& of_sample = table.samples[at].correction;
    const double weight = 1 / (distance + 1e-12);
    mean.factor += weight * of_sample.factor;
    for (std::size_t k = 0; k < kConditions; ++k) {
      mean.slowdown[k] += weight * of_sample.slowdown[k];
      mean.has[k] = mean.has[k] && of_sample.has[k];
    }
    AddSlowness(weight, of_sample, &mean);
    weights += weight;
  }
  mean.factor /= weights;
  for (double& slowdown : mean.slowdown) slowdown /= weights;
  for (double& slowness : mean.gpu_slowness) slowness /= weights;
  return mean;
}

void MeasuredOperators::AddSlowdowns(const Correction& correction, Estimate* estimate) {
  const auto slowdown = [&correction](Condition condition) {
    return correction.has[condition] ? std::exp(correction.slowdown[condition]) : 0.0;
  };
  estimate->busy_slowdown = slowdown(kBusy);
  estimate->beside_h2d = slowdown(kBesideH2D);
  estimate->beside_d2h = slowdown(kBesideD2H);
  estimate->beside_both = slowdown(kBesideBoth);
  estimate->beside_collective = slowdown(kBesideCollective);
  estimate->lets_in = slowdown(kLetsIn);
  for (const double slowness : correction.gpu_slowness) {
    estimate->gpu_slowness.push_back(std::exp(slowness));
  }
  if (!correction.has[kRested]) return;
  estimate->rested_speedup = 1 / slowdown(kRested);
  // Over time alone at those clocks.
  estimate->rested_beside_h2d = slowdown(kRestedBesideH2D) * estimate->rested_speedup;
  estimate->rested_beside_d2h = slowdown(kRestedBesideD2H) * estimate->rested_speedup;
  estimate->rested_beside_both = slowdown(kRestedBesideBoth) * estimate->rested_speedup;
}

std::optional<MeasuredOperators::Estimate> MeasuredOperators::OnHost(const OpShape& shape) const {
  if (!tables_.contains({Name(shape.op), Name(shape.dtype), shape.flags, true, Fusion::kAlone})) {
    return std::nullopt;
  }
  return Find(shape, /*on_host=*/true, Fusion::kAlone);
}

MeasuredOperators::Estimate MeasuredOperators::Find(const OpShape& whole_shape, bool on_host,
                                                    Fusion fusion) const {
  const OpShape shape = WorkShape(whole_shape);
  const double now = now_.Of(shape).seconds;
  bool of_other_part = false;
  const Table* const found =
      FindTable({Name(shape.op), Name(shape.dtype), shape.flags, on_host, fusion}, &of_other_part);
  if (found == nullptr) {
    return {
        .seconds = IsLaunchedWithPartner(fusion) ? 0 : now, .extrapolated = true, .modelled = true};
  }
  const Table& table = *found;
  const Sizes sizes = SizesOf(shape);
  const double then = then_.Of(shape).seconds;
  const bool changed = now != then;
  for (const Sample& sample : table.samples) {
    if (sample.sizes != sizes) continue;
    Estimate exact{.seconds = changed ? sample.seconds * now / then : sample.seconds,
                   .extrapolated = changed || of_other_part || sample.of_other_part};
    AddSlowdowns(sample.correction, &exact);
    AddTail(shape, on_host, fusion, &exact);
    return exact;
  }
  bool inside = true;
  for (std::size_t i = 0; i < kSizes; ++i) {
    inside = inside && sizes[i] >= table.low[i] && sizes[i] <= table.high[i];
  }
  const Correction correction = Interpolate(table, sizes);
  Estimate estimate{.seconds = now * std::exp(correction.factor),
                    .extrapolated = changed || !inside || of_other_part};
  AddSlowdowns(correction, &estimate);
  AddTail(shape, on_host, fusion, &estimate);
  return estimate;
}

void MeasuredOperators::AddTail(const OpShape& shape, bool on_host, Fusion fusion,
                                Estimate* estimate) const {
  if (on_host || IsLaunchedWithPartner(fusion)) return;
  const auto tail = tail_s_.find({Name(shape.op), Name(shape.dtype)});
  if (estimate->lets_in > 0 || tail == tail_s_.end() || !(estimate->seconds > 0)) return;
  estimate->lets_in = std::clamp(1 - tail->second / estimate->seconds, kLeastLetsIn, 1.0);
}

MeasuredMovements::MeasuredMovements(const Profile& profile, const Cluster& cluster)
    : then_(MeasuredOn(profile, cluster)) {
  for (const CollectiveSample& sample : profile.collectives()) {
    if (sample.bytes() <= 0 || !(sample.median_s() > 0)) continue;
    (sample.in_place() ? in_place_
                       : collectives_)[{sample.op(), sample.group_size(), sample.ranks_per_node(),
                                        sample.dtype(), sample.flags()}]
        .push_back({static_cast<double>(sample.bytes()), sample.median_s(), sample.busy_median_s(),
                    sample.beside_compute_s(), sample.takes_turns()});
  }
  for (const CopySample& sample : profile.copies()) {
    if (sample.bytes() <= 0 || !(sample.alone_s() > 0)) continue;
    Points& points = sample.direction() == CopySample::H2D ? h2d_ : d2h_;
    points.push_back({static_cast<double>(sample.bytes()), sample.alone_s(), sample.busy_s()});
  }
  // By size; of several at one size the first that the file has.
  const auto arrange = [](Points& points) {
    std::stable_sort(points.begin(), points.end(),
                     [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
    const auto same = [](const Point& a, const Point& b) { return a.bytes == b.bytes; };
    points.erase(std::unique(points.begin(), points.end(), same), points.end());
  };
  for (Tables* tables : {&collectives_, &in_place_}) {
    for (auto& [key, points] : *tables) arrange(points);
  }
  arrange(h2d_);
  arrange(d2h_);
}

double MeasuredMovements::BesideCompute(const Points& points, double bytes) {
  double slowdown = 0, distance = HUGE_VAL;
  for (const Point& point : points) {
    const double away = std::abs(std::log(point.bytes / bytes));
    if (!(point.beside_compute_s > 0) || away >= distance) continue;
    distance = away;
    slowdown = std::max(1.0, point.beside_compute_s / point.seconds);
  }
  return slowdown;
}

bool MeasuredMovements::Apply(const Points& points, double bytes, double then_s, MovementCost* cost,
                              const Points* of_copies) {
  if (points.empty() || bytes <= 0) return true;
  cost->is_measured = true;
  const double change = then_s > 0 ? cost->Seconds() / then_s : 1;
  // The segment that holds `bytes`, or the nearest one.
  std::size_t upper = 0;
  while (upper + 1 < points.size() && points[upper].bytes < bytes) ++upper;
  const Point& high = points[upper];
  double seconds = high.seconds, latency = high.seconds;
  const Point* nearest = &high;
  if (points.size() == 1) {
    // One size: the model's own latency, the rest moves at one rate.
    latency = std::min(cost->fixed_s, high.seconds);
    seconds = latency + (high.seconds - latency) * bytes / high.bytes;
  } else if (bytes > points.front().bytes) {
    const Point& low = points[upper - 1];
    const double slope = std::max(0.0, (high.seconds - low.seconds) / (high.bytes - low.bytes));
    // Where time grows faster than size the line starts below 0: all of it is bandwidth then.
    latency = std::max(0.0, low.seconds - slope * low.bytes);
    seconds = bytes == high.bytes ? high.seconds : low.seconds + slope * (bytes - low.bytes);
    if (bytes - low.bytes < high.bytes - bytes) nearest = &low;
  } else {
    latency = seconds = points.front().seconds;  // Smaller than measured: no faster.
  }
  cost->takes_turns = nearest->takes_turns;
  if (nearest->busy_s > 0) cost->busy_slowdown = nearest->busy_s / nearest->seconds;
  cost->beside_compute = BesideCompute(points, bytes);
  if (cost->takes_turns && of_copies != nullptr) {
    const double of_rest = BesideCompute(*of_copies, bytes);
    if (of_rest > 0) cost->beside_compute = std::min(cost->beside_compute, of_rest);
  }
  const bool extrapolated =
      change != 1 || bytes < points.front().bytes || bytes > points.back().bytes;

  const double old_flow = cost->FlowSeconds();
  // What computing beside it costs was measured of the whole time, and slows flows only.
  latency = cost->beside_compute > 1 ? 0 : std::min(latency, seconds);
  cost->fixed_s = latency * change;
  const double flow = (seconds - latency) * change;
  if (flow <= 0 || !(old_flow > 0)) {
    cost->peer_bytes = cost->nic_bytes = 0;  // All time is latency.
    cost->fixed_s = seconds * change;
    return extrapolated;
  }
  cost->peer_bytes_per_s *= old_flow / flow;
  cost->nic_bytes_per_s *= old_flow / flow;
  return extrapolated;
}

const MeasuredMovements::Points* MeasuredMovements::Find(const Tables& tables, const Key& exact) {
  const auto& [op, members, in_node, dtype, flags] = exact;
  for (const Key& key : {exact, Key(op, members, in_node, "", flags)}) {
    const auto at = tables.find(key);
    if (at != tables.end()) return &at->second;
  }
  return nullptr;
}

bool MeasuredMovements::Collective(const OpShape& shape, const GroupShape& group,
                                   MovementCost* cost, bool in_place) const {
  const Key key{Name(shape.op), group.members, group.own_node_members, Name(shape.dtype),
                shape.flags};
  const auto bytes = static_cast<double>(shape.dims[0]);
  const Points* points = Find(collectives_, key);
  const Points* const of_in_place = Find(in_place_, key);
  const auto is_measured_in_place = [&] {
    return in_place && of_in_place != nullptr &&
           std::ranges::find(*of_in_place, bytes, &Point::bytes) != of_in_place->end();
  };
  if (points == nullptr || is_measured_in_place()) points = of_in_place;
  if (points == nullptr) return true;
  return Apply(*points, bytes, CollectiveCost(then_, shape.op, bytes, group).Seconds(), cost,
               points == of_in_place ? nullptr : of_in_place);
}

bool MeasuredMovements::Send(double bytes, bool same_node, MovementCost* cost) const {
  const Points* points = Find(collectives_, {Name(OpCode::kSend), 2, same_node ? 2 : 1, "", 0});
  if (points == nullptr) return true;
  return Apply(*points, bytes, SendCost(then_, bytes, same_node).Seconds(), cost);
}

bool MeasuredMovements::Copy(double bytes, bool h2d, MovementCost* cost) const {
  return Apply(h2d ? h2d_ : d2h_, bytes, CopyCost(then_, bytes, h2d).Seconds(), cost);
}

}  // namespace twinstep
