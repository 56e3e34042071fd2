#include "sim/cost/profile_cost.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

MeasuredOperators::MeasuredOperators(const Profile& profile, const OperatorRoofline& now,
                                     int gradient_bytes)
    : now_(now),
      then_(profile.has_measured_on() ? OperatorRoofline(profile.measured_on(), gradient_bytes)
                                      : now) {
  std::map<std::string, OpCode> codes;
  for (int i = 0; i < kOpCodeCount; ++i) {
    const auto code = static_cast<OpCode>(i);
    codes[Name(code)] = code;
  }
  std::map<std::string, Dtype> dtypes;
  for (const Dtype dtype :
       {Dtype::kBf16, Dtype::kFp16, Dtype::kFp32, Dtype::kFp64, Dtype::kInt32, Dtype::kUint8}) {
    dtypes[Name(dtype)] = dtype;
  }
  for (const OperatorSample& measured : profile.operators()) {
    const auto code = codes.find(measured.op());
    const auto dtype = dtypes.find(measured.dtype());
    if (code == codes.end() || dtype == dtypes.end() || !(measured.median_s() > 0)) continue;
    OpShape shape{.op = code->second,
                  .dtype = dtype->second,
                  .flags = static_cast<std::uint16_t>(measured.flags())};
    const auto count =
        std::min<std::size_t>(shape.dims.size(), static_cast<std::size_t>(measured.dims_size()));
    for (std::size_t i = 0; i < count; ++i) shape.dims[i] = measured.dims(static_cast<int>(i));
    shape = WorkShape(shape);
    const double roofline = then_.Of(shape).seconds;
    Sample sample{.dims = shape.dims, .seconds = measured.median_s()};
    if (roofline > 0 && std::isfinite(roofline)) {
      sample.log_factor = std::log(sample.seconds / roofline);
    }
    Table& table = tables_[{measured.op(), measured.dtype(), measured.flags()}];
    if (table.samples.empty()) table.low = table.high = shape.dims;
    for (std::size_t i = 0; i < shape.dims.size(); ++i) {
      table.low[i] = std::min(table.low[i], shape.dims[i]);
      table.high[i] = std::max(table.high[i], shape.dims[i]);
    }
    table.samples.push_back(sample);
  }
}

double MeasuredOperators::LogFactor(const Table& table, const std::array<std::int64_t, 6>& dims) {
  // Neighbours below and above along a single dimension: a straight line between them.
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const Sample* below = nullptr;
    const Sample* above = nullptr;
    for (const Sample& sample : table.samples) {
      bool on_axis = true;
      for (std::size_t i = 0; i < dims.size(); ++i) {
        on_axis = on_axis && (i == axis || sample.dims[i] == dims[i]);
      }
      if (!on_axis) continue;
      const std::int64_t at = sample.dims[axis];
      if (at <= dims[axis] && (below == nullptr || at > below->dims[axis])) below = &sample;
      if (at >= dims[axis] && (above == nullptr || at < above->dims[axis])) above = &sample;
    }
    if (below == nullptr || above == nullptr) continue;
    if (below->dims[axis] == above->dims[axis]) return below->log_factor;
    const double whole = LogDistance(above->dims[axis], below->dims[axis]);
    const double part = LogDistance(dims[axis], below->dims[axis]);
    return below->log_factor + (above->log_factor - below->log_factor) * part / whole;
  }
  std::vector<std::pair<double, double>> near;  // Squared distance, log factor.
  near.reserve(table.samples.size());
  for (const Sample& sample : table.samples) {
    double distance = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const double d = LogDistance(dims[i], sample.dims[i]);
      distance += d * d;
    }
    near.emplace_back(distance, sample.log_factor);
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min(kNeighbours, near.size()));
  std::partial_sort(near.begin(), near.begin() + count, near.end());
  double sum = 0, weights = 0;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const auto& [distance, factor] = near[static_cast<std::size_t>(i)];
    const double weight = 1 / (distance + 1e-12);
    sum += weight * factor;
    weights += weight;
  }
  return sum / weights;
}

MeasuredOperators::Estimate MeasuredOperators::Of(const OpShape& whole_shape) const {
  const OpShape shape = WorkShape(whole_shape);
  const double now = now_.Of(shape).seconds;
  const auto at = tables_.find({Name(shape.op), Name(shape.dtype), shape.flags});
  if (at == tables_.end()) return {.seconds = now, .extrapolated = true};
  const Table& table = at->second;
  const double then = then_.Of(shape).seconds;
  const bool changed = now != then;
  for (const Sample& sample : table.samples) {
    if (sample.dims != shape.dims) continue;
    if (!changed) return {.seconds = sample.seconds, .extrapolated = false};
    return {.seconds = sample.seconds * now / then, .extrapolated = true};
  }
  bool inside = true;
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    inside = inside && shape.dims[i] >= table.low[i] && shape.dims[i] <= table.high[i];
  }
  return {.seconds = now * std::exp(LogFactor(table, shape.dims)),
          .extrapolated = changed || !inside};
}

MeasuredMovements::MeasuredMovements(const Profile& profile, const Cluster& cluster)
    : then_(MeasuredOn(profile, cluster)) {
  for (const CollectiveSample& sample : profile.collectives()) {
    if (sample.bytes() <= 0 || !(sample.median_s() > 0)) continue;
    collectives_[{sample.op(), sample.group_size(), sample.ranks_per_node()}].push_back(
        {static_cast<double>(sample.bytes()), sample.median_s()});
  }
  for (const CopySample& sample : profile.copies()) {
    if (sample.bytes() <= 0 || !(sample.alone_s() > 0)) continue;
    Points& points = sample.direction() == CopySample::H2D ? h2d_ : d2h_;
    points.push_back({static_cast<double>(sample.bytes()), sample.alone_s()});
  }
  // By size; of several at one size the first that the file has.
  const auto arrange = [](Points& points) {
    std::stable_sort(points.begin(), points.end(),
                     [](const Point& a, const Point& b) { return a.bytes < b.bytes; });
    const auto same = [](const Point& a, const Point& b) { return a.bytes == b.bytes; };
    points.erase(std::unique(points.begin(), points.end(), same), points.end());
  };
  for (auto& [key, points] : collectives_) arrange(points);
  arrange(h2d_);
  arrange(d2h_);
}

bool MeasuredMovements::Apply(const Points& points, double bytes, double then_s,
                              MovementCost* cost) {
  if (points.empty() || bytes <= 0) return true;
  const double change = then_s > 0 ? cost->Seconds() / then_s : 1;
  // The segment that holds `bytes`, or the nearest one.
  std::size_t upper = 0;
  while (upper + 1 < points.size() && points[upper].bytes < bytes) ++upper;
  const Point& high = points[upper];
  double seconds = high.seconds, latency = high.seconds;
  if (points.size() == 1) {
    // One size: the model's own latency, the rest moves at one rate.
    latency = std::min(cost->fixed_s, high.seconds);
    seconds = latency + (high.seconds - latency) * bytes / high.bytes;
  } else if (bytes > points.front().bytes) {
    const Point& low = points[upper - 1];
    const double slope = std::max(0.0, (high.seconds - low.seconds) / (high.bytes - low.bytes));
    // Where time grows faster than size the line starts below 0: all of it is bandwidth then.
    latency = std::max(0.0, low.seconds - slope * low.bytes);
    seconds = low.seconds + slope * (bytes - low.bytes);
  } else {
    latency = seconds = points.front().seconds;  // Smaller than measured: no faster.
  }
  const bool extrapolated =
      change != 1 || bytes < points.front().bytes || bytes > points.back().bytes;

  const double old_flow = cost->FlowSeconds();
  cost->fixed_s = latency * change;
  const double flow = std::max(0.0, seconds - latency) * change;
  if (flow <= 0 || !(old_flow > 0)) {
    cost->peer_bytes = cost->nic_bytes = 0;  // All time is latency.
    cost->fixed_s = seconds * change;
    return extrapolated;
  }
  cost->peer_bytes_per_s *= old_flow / flow;
  cost->nic_bytes_per_s *= old_flow / flow;
  return extrapolated;
}

bool MeasuredMovements::Collective(OpCode op, double bytes, const GroupShape& shape,
                                   MovementCost* cost) const {
  const auto at = collectives_.find({Name(op), shape.members, shape.own_node_members});
  if (at == collectives_.end()) return true;
  return Apply(at->second, bytes, CollectiveCost(then_, op, bytes, shape).Seconds(), cost);
}

bool MeasuredMovements::Send(double bytes, bool same_node, MovementCost* cost) const {
  const auto at = collectives_.find({Name(OpCode::kSend), 2, same_node ? 2 : 1});
  if (at == collectives_.end()) return true;
  return Apply(at->second, bytes, SendCost(then_, bytes, same_node).Seconds(), cost);
}

bool MeasuredMovements::Copy(double bytes, bool h2d, MovementCost* cost) const {
  return Apply(h2d ? h2d_ : d2h_, bytes, CopyCost(then_, bytes, h2d).Seconds(), cost);
}

}  // namespace twinstep
