#include "sim/cost/operator_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/cost/efficiency.h"
#include "sim/graph/find_op.h"

namespace twinstep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFp32Bytes = 4;
// Rows of queries that one SM works on at a time in flash attention, and the head size at which
// Cluster gives the attention curves.
constexpr double kAttentionTileRows = 128;
constexpr double kReferenceHeadDim = 128;
// Tensor cores take operands whose rows are multiples of this (NVIDIA, Matrix Multiplication
// Background); other products run on the fp32 cores. A head size of 150 is what BLOOM's pre-study
// suffered from.
constexpr std::int64_t kTensorCoreRowBytes = 16;
// See the header: the share of a tile's wider output that is waited for.
constexpr double kExposedOutput = 0.43;
constexpr double kNarrowOutputBytes = 2;
// GEMM libraries have tiles in steps of this, and none smaller.
constexpr double kSmallestTile = 64;

// The least that a ragged last wave takes: see the header.
constexpr double kLeastWave = 0.7;

// How many waves' time `waves` of tiles take: whole waves, and the last for its fraction, but no
// less than kLeastWave, for a smaller tile fills it no better; less than a wave takes one.
double WaveTime(double waves) {
  if (waves <= 1) return 1;
  const double whole = std::floor(waves);
  const double rest = waves - whole;
  return rest == 0 ? whole : whole + std::max(rest, kLeastWave);
}

// A tile no larger than the matrix needs.
double FitTile(double tile, double extent) {
  return std::min(tile, std::max(kSmallestTile, std::ceil(extent / kSmallestTile) * kSmallestTile));
}

bool IsMatrixProduct(OpCode op) {
  switch (op) {
    case OpCode::kGemmForward:
    case OpCode::kGemmDgrad:
    case OpCode::kGemmWgrad:
    case OpCode::kAttentionForward:
    case OpCode::kAttentionBackward:
    case OpCode::kAttentionScores:
    case OpCode::kAttentionContext:
    case OpCode::kAttentionContextBackward:
    case OpCode::kAttentionScoresBackward:
      return true;
    default:
      return false;
  }
}

// Rational approximation of the standard normal quantile (Abramowitz and Stegun 26.2.23; absolute
// error below 4.5e-4), for probabilities of at least one half.
double NormalQuantile(double probability) {
  const double t = std::sqrt(-2 * std::log(1 - probability));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

}  // namespace

double TrafficBytes(const OpShape& shape, double gradient_bytes) {
  const double bytes = MemoryBytes(shape);
  const double wider = gradient_bytes - static_cast<double>(DtypeBytes(shape.dtype));
  const double passes = (shape.flags & kAccumulateGradient) != 0 ? 2 : 1;
  const auto dim = [&](std::size_t i) { return static_cast<double>(shape.dims[i]); };
  switch (shape.op) {
    case OpCode::kGemmWgrad:
      return bytes + wider * passes * dim(1) * dim(2);
    case OpCode::kEmbeddingBackward: {
      const double shards = shape.count > 0 ? shape.count : 1;
      return bytes + wider * (passes == 2 ? 2 * dim(0) * dim(1) / shards : dim(1) * dim(2));
    }
    case OpCode::kAdam:
      return bytes + wider * dim(0);
    default:
      return bytes;
  }
}

double ExpectedMaximum(double count) {
  if (!(count > 1)) return 0;
  return std::max(0.0, NormalQuantile((count - 0.375) / (count + 0.25)));
}

OperatorRoofline::OperatorRoofline(const Cluster& cluster, int gradient_bytes,
                                   const Framework* framework)
    : gpu_(cluster.gpu()),
      gradient_bytes_(gradient_bytes),
      adam_params_per_s_(cluster.gpu_adam_params_per_s()) {
  if (framework == nullptr) return;
  framework_ = *framework;
  for (const OperationKernels& kernels : framework_.kernels()) {
    const std::optional<OpCode> op = FindOp(kernels.op());
    if (!op) continue;
    kernels_[static_cast<std::size_t>(*op)] = {.traffic = OneIfUnset(kernels.traffic()),
                                               .launches = OneIfUnset(kernels.launches()),
                                               .arithmetic = OneIfUnset(kernels.arithmetic())};
  }
}

double OperatorRoofline::PeakFlops(Dtype dtype) const {
  switch (dtype) {
    case Dtype::kBf16:
    case Dtype::kFp16:
      return gpu_.bf16_flops_per_s();
    case Dtype::kFp64:
      return gpu_.fp64_flops_per_s();
    case Dtype::kFp32:
    case Dtype::kInt32:
    case Dtype::kUint8:
      return gpu_.fp32_flops_per_s();
  }
  return 0;
}

std::string OperatorRoofline::MissingField(const OpShape& shape) const {
  if (!(gpu_.memory_bytes_per_s() > 0)) return "gpu.memory_bytes_per_s";
  if (IsMatrixProduct(shape.op) && !(PeakFlops(shape.dtype) > 0)) {
    switch (shape.dtype) {
      case Dtype::kBf16:
      case Dtype::kFp16:
        return "gpu.bf16_flops_per_s";
      case Dtype::kFp64:
        return "gpu.fp64_flops_per_s";
      case Dtype::kFp32:
      case Dtype::kInt32:
      case Dtype::kUint8:
        return "gpu.fp32_flops_per_s";
    }
  }
  return "";
}

double OperatorRoofline::GemmEfficiency() const {
  return OneIfUnset(gpu_.gemm_max_efficiency()) * OneIfUnset(gpu_.sustained_fraction());
}

double OperatorRoofline::MemorySeconds(double bytes) const {
  if (bytes <= 0) return 0;
  if (!(gpu_.memory_bytes_per_s() > 0)) return kInfinity;
  return bytes / (gpu_.memory_bytes_per_s() * Evaluate(gpu_.memory_bound(), bytes));
}

// Time of batch x (m x n x k) with one tile shape.
double OperatorRoofline::TiledSeconds(double tile_m, double tile_n, double batch, double m,
                                      double n, double k, double output_bytes, double peak) const {
  const auto sms = static_cast<double>(gpu_.streaming_multiprocessors());
  tile_m = FitTile(tile_m, m);
  tile_n = FitTile(tile_n, n);
  double half_k = std::max(0.0, gpu_.gemm_half_k());
  const double tiles = batch * std::ceil(m / tile_m) * std::ceil(n / tile_n);
  const double seconds_a_k_step = 2 * tile_m * tile_n * sms / (peak * GemmEfficiency());
  if (output_bytes > kNarrowOutputBytes && gpu_.memory_bytes_per_s() > 0) {
    const double bytes = (output_bytes - kNarrowOutputBytes) * tile_m * tile_n;
    half_k += kExposedOutput * bytes * sms / gpu_.memory_bytes_per_s() / seconds_a_k_step;
  }
  const double whole = WaveTime(tiles / sms) * seconds_a_k_step * (k + half_k);
  const double splits = std::floor(sms / tiles);
  if (splits < 2) return whole;
  // Each partial sum is written and read in fp32 by a second kernel.
  const double split = seconds_a_k_step * (k / splits + half_k) + gpu_.kernel_launch_s() +
                       MemorySeconds(2 * kFp32Bytes * splits * batch * m * n);
  return std::min(whole, split);
}

double OperatorRoofline::GemmSeconds(const OpShape& shape, double batch, double m, double n,
                                     double k, double output_bytes) const {
  const double peak = PeakFlops(shape.dtype);
  if (m <= 0 || n <= 0 || k <= 0 || batch <= 0) return 0;
  if (!(peak > 0)) return kInfinity;
  const auto tile_m = static_cast<double>(gpu_.gemm_tile_m());
  const auto tile_n = static_cast<double>(gpu_.gemm_tile_n());
  if (tile_m <= 0 || tile_n <= 0 || gpu_.streaming_multiprocessors() <= 0) {
    return 2 * batch * m * n * (k + std::max(0.0, gpu_.gemm_half_k())) / (peak * GemmEfficiency());
  }
  // The library turns the tile whichever way fits better.
  return std::min(TiledSeconds(tile_m, tile_n, batch, m, n, k, output_bytes, peak),
                  TiledSeconds(tile_n, tile_m, batch, m, n, k, output_bytes, peak));
}

double OperatorRoofline::AttentionSeconds(const OpShape& shape,
                                          const EfficiencyCurve& curve) const {
  const double flops = Flops(shape);
  if (flops <= 0) return 0;
  const auto dim = [&](std::size_t i) { return static_cast<double>(shape.dims[i]); };
  double rate = PeakFlops(shape.dtype) * Evaluate(curve, dim(4) / 2);
  const double half_dim = std::max(0.0, gpu_.attention_half_head_dim());
  rate *= dim(5) / (dim(5) + half_dim) * (kReferenceHeadDim + half_dim) / kReferenceHeadDim;
  const double row_tiles = dim(0) * dim(1) * std::ceil(dim(3) / kAttentionTileRows);
  const auto sms = static_cast<double>(gpu_.streaming_multiprocessors());
  if (row_tiles < sms) rate *= row_tiles / sms;
  return rate > 0 ? flops / rate : kInfinity;
}

double OperatorRoofline::ComputeSeconds(const OpShape& shape) const {
  const auto dim = [&](std::size_t i) { return static_cast<double>(shape.dims[i]); };
  const double narrow = kNarrowOutputBytes;
  OpShape product = shape;  // Of each head.
  if (DtypeBytes(shape.dtype) == 2 && gpu_.fp32_flops_per_s() > 0 &&
      shape.dims[5] * DtypeBytes(shape.dtype) % kTensorCoreRowBytes != 0) {
    product.dtype = Dtype::kFp32;
  }
  const auto square = [&](double m, double n, double k) {
    return GemmSeconds(product, dim(0) * dim(1), m, n, k, narrow);
  };
  const double s_q = dim(3), s_kv = dim(4), d = dim(5);
  switch (shape.op) {
    case OpCode::kGemmForward:
      return GemmSeconds(shape, 1, dim(0), dim(1), dim(2), narrow);
    case OpCode::kGemmDgrad:
      return GemmSeconds(shape, 1, dim(0), dim(2), dim(1), narrow);
    case OpCode::kGemmWgrad: {
      const bool accumulates =
          (shape.flags & kAccumulateGradient) != 0 && !framework_.separate_accumulation();
      const double element = framework_.separate_accumulation()
                                 ? static_cast<double>(DtypeBytes(shape.dtype))
                                 : gradient_bytes_;
      return GemmSeconds(shape, 1, dim(1), dim(2), dim(0), element * (accumulates ? 2 : 1));
    }
    case OpCode::kAttentionForward:
      return AttentionSeconds(shape, gpu_.attention_forward());
    case OpCode::kAttentionBackward:
      return AttentionSeconds(shape, gpu_.attention_backward());
    case OpCode::kAttentionScores:
      return square(s_q, s_kv, d);
    case OpCode::kAttentionContext:
      return square(s_q, d, s_kv);
    case OpCode::kAttentionContextBackward:  // dprobs = do V^T, dV = probs^T do.
      return square(s_q, s_kv, d) + square(s_kv, d, s_q);
    case OpCode::kAttentionScoresBackward:  // dq = dscores K, dK = dscores^T q.
      return square(s_q, d, s_kv) + square(s_kv, d, s_q);
    case OpCode::kAdam:
      return adam_params_per_s_ > 0 ? dim(0) / adam_params_per_s_ : 0;
    default:
      return 0;
  }
}

// Kernels that a framework runs after an operation's own.
double OperatorRoofline::ExtraSeconds(const OpShape& shape) const {
  const auto dim = [&](std::size_t i) { return static_cast<double>(shape.dims[i]); };
  const auto element = static_cast<double>(DtypeBytes(shape.dtype));
  double seconds = 0;
  const auto add = [&](double bytes) { seconds += gpu_.kernel_launch_s() + MemorySeconds(bytes); };
  if (shape.op == OpCode::kGemmWgrad) {
    const bool accumulates = (shape.flags & kAccumulateGradient) != 0;
    if (framework_.separate_accumulation() && accumulates) {
      add((element + 2 * gradient_bytes_) * dim(1) * dim(2));
    }
    if (framework_.separate_bias_gradient() && (shape.flags & kHasBias) != 0) {
      add(element * dim(0) * dim(1));
    }
  } else if (shape.op == OpCode::kAdam && framework_.optimizer_bytes_per_param() > 0) {
    add(framework_.optimizer_bytes_per_param() * dim(0));
  }
  return seconds;
}

double OperatorRoofline::Sensitivity(const OpShape& shape, double bytes,
                                     const OperatorTime& time) const {
  if (!IsMatrixProduct(shape.op) || gpu_.l2_bytes() <= 0 || bytes <= 0) return 1;
  // A product bound by arithmetic suffers as far as its operands do not fit the cache. On an H200
  // (50 MB) 4096-cubed (101 MB) runs 0.3 % slower beside a copy, 8192-cubed (403 MB) 12 %
  // (SOURCES.md, M9): nothing up to twice the cache, all of it far beyond.
  const double outside = std::clamp(1 - 2 * static_cast<double>(gpu_.l2_bytes()) / bytes, 0.0, 1.0);
  const double memory_share = std::min(1.0, time.memory_s / std::max(time.compute_s, 1e-30));
  return std::max(outside, memory_share);
}

OperatorTime OperatorRoofline::Of(const OpShape& shape) const {
  OperatorTime time;
  const Kernels& kernels = kernels_[static_cast<std::size_t>(shape.op)];
  const double bytes = TrafficBytes(shape, gradient_bytes_) * kernels.traffic;
  time.compute_s = ComputeSeconds(shape) * kernels.arithmetic;
  // A given Adam rate is the whole kernel's, memory included.
  const bool measured_adam = shape.op == OpCode::kAdam && adam_params_per_s_ > 0;
  time.memory_s = measured_adam ? 0 : kernels.launches * MemorySeconds(bytes / kernels.launches);
  time.seconds = kernels.launches * std::max(0.0, gpu_.kernel_launch_s()) +
                 std::max(time.compute_s, time.memory_s) + ExtraSeconds(shape);
  time.seconds = std::max(time.seconds, kernels.launches * framework_.dispatch_s());
  time.sensitivity = Sensitivity(shape, bytes, time);
  return time;
}

}  // namespace twinstep
