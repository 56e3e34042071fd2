#include "exec/cuda/host_worker.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <system_error>

namespace twinstep::cuda {
namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 16;

std::int64_t Pieces(std::int64_t elements) {
  return (elements + kPieceElements - 1) / kPieceElements;
}

// Elements [begin, end) of an Adam task, as a task of their own.
void RunAdamPiece(const twinstep::KernelCall& call, std::int64_t begin, std::int64_t end) {
  const bool in_place = (call.shape.flags & kMasterIsParameter) != 0;
  const std::int64_t parameter = DtypeBytes(call.shape.dtype);
  const std::int64_t gradient = DtypeBytes(call.gradient_dtype);
  const std::int64_t state = DtypeBytes(call.state_dtype);
  std::array<const std::byte*, 5> reads{};
  std::array<std::byte*, 4> writes{};
  std::copy(call.reads.begin(), call.reads.end(), reads.begin());
  std::copy(call.writes.begin(), call.writes.end(), writes.begin());
  // Gradient, [master], m, v, [parameter]; the clip coefficient behind them is one number.
  const std::array<std::int64_t, 4> read_bytes{gradient, state, state,
                                               in_place ? parameter : state};
  const std::array<std::int64_t, 4> write_bytes{state, state, in_place ? parameter : state,
                                                parameter};
  for (std::size_t i = 0; i < read_bytes.size(); ++i) reads[i] += begin * read_bytes[i];
  for (std::size_t i = 0; i < call.writes.size(); ++i) writes[i] += begin * write_bytes[i];
  OpShape shape = call.shape;
  shape.dims[0] = end - begin;
  shape.dims[1] = std::clamp<std::int64_t>(call.shape.dims[1] - begin, 0, end - begin);
  RunKernel({.shape = shape,
             .gradient_dtype = call.gradient_dtype,
             .state_dtype = call.state_dtype,
             .reads = std::span(reads).first(call.reads.size()),
             .writes = std::span(writes).first(call.writes.size()),
             .step = call.step,
             .place = call.place});
}

}  // namespace

ParallelFor::ParallelFor(int threads) {
  // The caller works too, alone if need be: where the system has no more threads, fewer do it all.
  try {
    for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
  }
}

ParallelFor::~ParallelFor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begin_.notify_all();
}

void ParallelFor::Take() {
  for (std::int64_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) (*body_)(i);
}

void ParallelFor::Work() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    begin_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    lock.unlock();
    Take();
    lock.lock();
    if (--busy_ == 0) end_.notify_one();
  }
}

void ParallelFor::Run(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  {
    const std::lock_guard lock(mutex_);
    count_ = count;
    body_ = &body;
    next_ = 0;
    busy_ = static_cast<int>(threads_.size());
    ++round_;
  }
  begin_.notify_all();
  Take();
  std::unique_lock lock(mutex_);
  end_.wait(lock, [&] { return busy_ == 0; });
}

HostWorker::HostWorker(int threads)
    : loop_(threads), partial_norms_(static_cast<std::size_t>(threads)) {
  norm_parts_.reserve(partial_norms_.size() + 1);
}

void HostWorker::Run(const twinstep::KernelCall& call) {
  switch (call.shape.op) {
    case OpCode::kAdam:
      return Adam(call);
    case OpCode::kAccumulate:
      return Accumulate(call);
    case OpCode::kGradNorm:
      return GradNorm(call);
    default:
      return RunKernel(call);
  }
}

void HostWorker::Adam(const twinstep::KernelCall& call) {
  const std::int64_t elements = call.shape.dims[0];
  loop_.Run(Pieces(elements), [&](std::int64_t piece) {
    const std::int64_t begin = piece * kPieceElements;
    RunAdamPiece(call, begin, std::min(begin + kPieceElements, elements));
  });
}

void HostWorker::Accumulate(const twinstep::KernelCall& call) {
  const std::int64_t elements = call.shape.dims[0];
  loop_.Run(Pieces(elements), [&](std::int64_t piece) {
    const std::int64_t begin = piece * kPieceElements;
    const std::int64_t offset = begin * DtypeBytes(call.shape.dtype);
    const std::array<const std::byte*, 2> reads{call.reads[0] + offset, call.reads[1] + offset};
    const std::array<std::byte*, 1> writes{call.writes[0] + offset};
    OpShape shape = call.shape;
    shape.dims[0] = std::min(kPieceElements, elements - begin);
    RunKernel({.shape = shape, .reads = reads, .writes = writes, .step = call.step, .place = {}});
  });
}

void HostWorker::GradNorm(const twinstep::KernelCall& call) {
  // The shard that the operand holds, and what of it counts.
  const std::int64_t elements = call.shape.dims[0] / call.shape.count;
  const std::int64_t first = call.shape.index * elements;
  const std::int64_t counted_begin =
      std::clamp<std::int64_t>(call.shape.dims[1] - first, 0, elements);
  const std::int64_t counted_end =
      std::clamp<std::int64_t>(call.shape.dims[2] - first, 0, elements);
  const auto parts = static_cast<std::int64_t>(partial_norms_.size());
  const std::int64_t part = (counted_end - counted_begin + parts - 1) / parts;
  loop_.Run(parts, [&](std::int64_t i) {
    const std::int64_t begin = std::min(counted_begin + i * part, counted_end);
    const std::int64_t size = std::max<std::int64_t>(0, std::min(part, counted_end - begin));
    OpShape shape{.op = OpCode::kGradNorm, .dtype = call.shape.dtype};
    shape.dims = {size, 0, size};
    const std::array<const std::byte*, 1> reads{call.reads[0] +
                                                begin * DtypeBytes(call.shape.dtype)};
    const std::array<std::byte*, 1> writes{partial_norms_[static_cast<std::size_t>(i)].data()};
    RunKernel({.shape = shape, .reads = reads, .writes = writes, .step = call.step, .place = {}});
  });
  norm_parts_.clear();
  if ((call.shape.flags & kAccumulateGradient) != 0) norm_parts_.push_back(call.reads[1]);
  for (const auto& sum : partial_norms_) norm_parts_.push_back(sum.data());
  SumInOrder(Dtype::kFp64, /*exact_sum=*/true, norm_parts_, partial_norms_[0].size(),
             call.writes[0]);
}

}  // namespace twinstep::cuda
