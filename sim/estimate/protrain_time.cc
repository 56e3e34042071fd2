#include "sim/estimate/protrain_time.h"

#include <algorithm>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

struct NeededRate {
  const char* name;
  double value;
  bool needed;
};

Status Check(const ProTrainPlan& plan, const ProTrainRates& rates) {
  const auto chunk_count = static_cast<std::int64_t>(plan.chunks.size());
  if (plan.persistent_chunks < 0 || plan.persistent_chunks > chunk_count || plan.buffers < 0 ||
      rates.ranks < 1) {
    return Error{.message = StrCat("closed form: ", plan.persistent_chunks, " persistent chunks, ",
                                   plan.buffers, " buffers, ", rates.ranks, " ranks for ",
                                   chunk_count, " chunks")};
  }
  const bool streams = plan.persistent_chunks < chunk_count;
  const bool several = rates.ranks > 1 && chunk_count > 0;
  for (const NeededRate& rate : {
           NeededRate{"gather_bytes_per_s", rates.gather_bytes_per_s, several && streams},
           NeededRate{"reduce_bytes_per_s", rates.reduce_bytes_per_s, several},
           NeededRate{"upload_bytes_per_s", rates.upload_bytes_per_s, streams},
           NeededRate{"offload_bytes_per_s", rates.offload_bytes_per_s, streams},
           NeededRate{"gpu_adam_params_per_s", rates.gpu_adam_params_per_s,
                      plan.persistent_chunks > 0},
           NeededRate{"cpu_adam_params_per_s", rates.cpu_adam_params_per_s, streams},
       }) {
    if (rate.needed && !(rate.value > 0)) {
      return Error{.message = StrCat("closed form: ", rate.name, " is ", rate.value,
                                     "; the plan needs a positive one")};
    }
  }
  return Unit{};
}

// The primitives of one chunk.
class ChunkTimes {
 public:
  explicit ChunkTimes(const ProTrainRates& rates)
      : rates_(rates), ranks_(static_cast<double>(rates.ranks)) {}

  double Gather(const ProTrainChunk& chunk) const {
    return ranks_ > 1 ? rates_.collective_latency_s + chunk.bytes / rates_.gather_bytes_per_s : 0;
  }
  double Reduce(const ProTrainChunk& chunk) const {
    return ranks_ > 1 ? rates_.collective_latency_s + chunk.bytes / rates_.reduce_bytes_per_s : 0;
  }
  double Upload(const ProTrainChunk& chunk, bool beside_swap) const {
    const double beside = rates_.upload_beside_swap_bytes_per_s;
    const double rate = beside_swap && beside > 0 ? beside : rates_.upload_bytes_per_s;
    return rates_.copy_latency_s + chunk.bytes / ranks_ / rate;
  }
  double Offload(const ProTrainChunk& chunk) const {
    return rates_.copy_latency_s + chunk.bytes / ranks_ / rates_.offload_bytes_per_s;
  }
  double GpuAdam(const ProTrainChunk& chunk) const {
    return chunk.parameters / ranks_ / rates_.gpu_adam_params_per_s;
  }
  double CpuAdam(const ProTrainChunk& chunk) const {
    return chunk.parameters / ranks_ / rates_.cpu_adam_params_per_s;
  }

 private:
  const ProTrainRates& rates_;
  const double ranks_;
};

}  // namespace

double ProTrainTime::total_s() const {
  if (!cpu_optimizer_overlaps) return forward_s + backward_s + gpu_optimizer_s + cpu_optimizer_s;
  return forward_s + std::max(backward_s + gpu_optimizer_s, cpu_optimizer_s);
}

Result<ProTrainTime> EstimateTime(const ProTrainPlan& plan, const ProTrainRates& rates) {
  if (const Status input = Check(plan, rates); !input.ok()) return input.error();
  const std::size_t count = plan.chunks.size();
  const auto persistent = static_cast<std::size_t>(plan.persistent_chunks);
  const auto buffers = std::min(count, static_cast<std::size_t>(plan.buffers));
  const ChunkTimes of(rates);

  ProTrainTime time;
  time.chunks.resize(count);
  time.cpu_optimizer_overlaps = plan.cpu_optimizer_overlaps;
  for (std::size_t i = 0; i < count; ++i) {
    const ProTrainChunk& chunk = plan.chunks[i];
    ProTrainChunkTime& terms = time.chunks[i];
    terms.reduce_offload_s = of.Reduce(chunk);
    if (i < persistent) {
      time.gpu_optimizer_s += of.GpuAdam(chunk);
      continue;
    }
    terms.prefetch_forward_s = of.Gather(chunk) + of.Upload(chunk, chunk.forward_beside_swap);
    if (i < count - buffers) {
      terms.prefetch_backward_s = of.Gather(chunk) + of.Upload(chunk, chunk.backward_beside_swap);
    }
    terms.reduce_offload_s += of.Offload(chunk);
    time.cpu_optimizer_s += of.CpuAdam(chunk);
  }
  // Slot i of both sums, counted from 0: in the forward chunk i - 1 computes and chunk i is
  // fetched; in the backward chunk i computes, i - 1 is fetched and i + 1 reduced.
  for (std::size_t i = 0; i <= count; ++i) {
    const double computes = i > 0 ? plan.chunks[i - 1].forward_s : 0;
    const double fetches = i < count ? time.chunks[i].prefetch_forward_s : 0;
    time.forward_compute_s += computes;
    time.forward_s += std::max(computes, fetches);
  }
  for (std::size_t i = 0; i <= count; ++i) {
    const double computes = i < count ? plan.chunks[i].backward_s : 0;
    const double recomputes = i < count ? plan.chunks[i].recompute_s : 0;
    const double fetches = i > 0 ? time.chunks[i - 1].prefetch_backward_s : 0;
    const double reduces = i + 1 < count ? time.chunks[i + 1].reduce_offload_s : 0;
    time.backward_compute_s += computes;
    time.recompute_s += recomputes;
    time.backward_s += std::max({computes + recomputes, fetches, reduces});
  }
  return time;
}

Result<ProTrainTimes> ProTrainTimes::Of(const ProTrainPlan& plan, const ProTrainRates& rates) {
  ProTrainPlan any = plan;
  for (const std::size_t persistent : {std::size_t{0}, plan.chunks.size()}) {
    any.persistent_chunks = static_cast<std::int64_t>(persistent);
    if (const Status input = Check(any, rates); !input.ok()) return input.error();
  }
  const ChunkTimes of(rates);
  ProTrainTimes times;
  times.cpu_optimizer_overlaps_ = plan.cpu_optimizer_overlaps;
  const std::size_t count = times.count_ = plan.chunks.size();
  const auto add = [](Sums* sums, double seconds) {
    sums->push_back((sums->empty() ? 0 : sums->back()) + seconds);
  };
  for (Sums* sums : {&times.computes_, &times.fetches_, &times.keeps_, &times.reduces_offloads_,
                     &times.fetches_again_, &times.gpu_adam_, &times.cpu_adam_}) {
    sums->reserve(count + 2);
    sums->push_back(0);
  }
  // Slots as in EstimateTime.
  for (std::size_t i = 0; i <= count; ++i) {
    const bool computes = i < count;
    const ProTrainChunk none;
    const ProTrainChunk& chunk = computes ? plan.chunks[i] : none;
    const ProTrainChunk& before = i > 0 ? plan.chunks[i - 1] : none;
    const double fetch =
        computes ? of.Gather(chunk) + of.Upload(chunk, chunk.forward_beside_swap) : 0;
    add(&times.computes_, before.forward_s);
    add(&times.fetches_, std::max(before.forward_s, fetch));

    const double backward = chunk.backward_s + chunk.recompute_s;
    double reduce = 0, offload = 0;
    if (i + 1 < count) {
      reduce = of.Reduce(plan.chunks[i + 1]);
      offload = of.Offload(plan.chunks[i + 1]);
    }
    const double again =
        i > 0 ? of.Gather(before) + of.Upload(before, before.backward_beside_swap) : 0;
    add(&times.keeps_, std::max(backward, reduce));
    add(&times.reduces_offloads_, std::max(backward, reduce + offload));
    add(&times.fetches_again_, std::max({backward, reduce + offload, again}));
    if (!computes) continue;
    add(&times.gpu_adam_, of.GpuAdam(chunk));
    add(&times.cpu_adam_, of.CpuAdam(chunk));
  }
  return times;
}

double ProTrainTimes::total_s(std::int64_t persistent, std::int64_t buffers) const {
  const auto n = static_cast<std::size_t>(persistent);
  const std::size_t kept = std::min(count_, static_cast<std::size_t>(buffers));
  const std::size_t slots = count_ + 1;
  const auto sum = [](const Sums& sums, std::size_t begin, std::size_t end) {
    return end > begin ? sums[end] - sums[begin] : 0;
  };
  const double forward = sum(computes_, 0, n) + sum(fetches_, n, slots);
  // Of the chunk before a slot's: fetched from slot n + 1 on, up to the last that was given up.
  // Of the chunk behind it: offloaded from slot n - 1 on.
  const std::size_t offloads = n > 0 ? n - 1 : 0;
  const std::size_t first = std::min(n + 1, slots);
  const std::size_t last = std::max(first, count_ - kept + 1);
  const double backward = sum(keeps_, 0, offloads) + sum(reduces_offloads_, offloads, first) +
                          sum(fetches_again_, first, last) + sum(reduces_offloads_, last, slots);
  const double gpu_adam = gpu_adam_[n];
  const double cpu_adam = sum(cpu_adam_, n, count_);
  if (!cpu_optimizer_overlaps_) return forward + backward + gpu_adam + cpu_adam;
  return forward + std::max(backward + gpu_adam, cpu_adam);
}

}  // namespace twinstep
