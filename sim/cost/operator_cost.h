// Roofline of one operator alone on its GPU: the larger of compute time and memory time, plus the
// kernel's launch. All constants come from the Cluster message; the curves from physics:
//
//   GEMM       tiles of tile_m x tile_n in waves over the SMs; a tile takes (k + half_k) steps.
//              A ragged last wave costs its fraction, at least 0.7 of a wave (libraries have
//              smaller tiles for it; 0.7 is what SimuMax's GEMMs show best). Few tiles and a long k
//              are split over k, at the price of reducing fp32 partial sums.
//   attention  flash: causal FLOPs at a rate that grows with the keys a row sees and with the head
//              size, and falls where there are fewer row tiles than SMs.
//   others     bytes over memory bandwidth, with a start-up of half_work bytes.
//
// A tile's output beyond two bytes an element (fp32 gradients, read and written where they
// accumulate) is partly waited for: 0.43 of its share of the memory bandwidth. That is what
// SimuMax's GEMMs on an A100 show, whose accumulating ones are as fast as k + 290 where others are
// as k + 130 (github.com/MooreThreads/SimuMax, configs/system/a100_pcie.json, 110 shapes).
//
//   const OperatorRoofline roofline(cluster, /*gradient_bytes=*/4);
//   double seconds = roofline.Of(shape).seconds;
#pragma once

#include <array>
#include <string>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/frameworks/framework.pb.h"
#include "sim/graph/op.h"

namespace twinstep {

struct OperatorTime {
  double compute_s = 0, memory_s = 0;  // What the work needs of each; they run side by side.
  double seconds = 0;                  // Launch and the larger of the two.
  // Share of an interference factor that applies (TaskCost::interference_sensitivity).
  double sensitivity = 1;
};

class OperatorRoofline {
 public:
  // `gradient_bytes`: bytes of an element of a weight's gradient (the recipe's). `framework` may be
  // null: every operation is one fused kernel.
  OperatorRoofline(const Cluster& cluster, int gradient_bytes,
                   const Framework* framework = nullptr);

  // COMPUTE operators. Infinite where the cluster lacks a constant: see MissingField.
  OperatorTime Of(const OpShape& shape) const;

  // The Cluster field whose absence makes Of(shape) infinite, e.g. "gpu.bf16_flops_per_s"; "" if
  // none.
  std::string MissingField(const OpShape& shape) const;

 private:
  double PeakFlops(Dtype dtype) const;
  double GemmEfficiency() const;
  double MemorySeconds(double bytes) const;
  // `output_bytes`: traffic of one element of the result.
  double GemmSeconds(const OpShape& shape, double batch, double m, double n, double k,
                     double output_bytes) const;
  double TiledSeconds(double tile_m, double tile_n, double batch, double m, double n, double k,
                      double output_bytes, double peak) const;
  double AttentionSeconds(const OpShape& shape, const EfficiencyCurve& curve) const;
  double ComputeSeconds(const OpShape& shape) const;
  double ExtraSeconds(const OpShape& shape) const;
  double Sensitivity(const OpShape& shape, double bytes, const OperatorTime& time) const;

  struct Kernels {
    double traffic = 1, launches = 1, arithmetic = 1;
  };

  const Gpu gpu_;
  const double gradient_bytes_;
  const double adam_params_per_s_;
  Framework framework_;
  std::array<Kernels, kOpCodeCount> kernels_{};  // By operation.
};

// Device-memory traffic of an operation whose weight gradients have `gradient_bytes` an element.
double TrafficBytes(const OpShape& shape, double gradient_bytes);

// Expected maximum of `count` standard normal variables (Blom 1958), 0 for one.
double ExpectedMaximum(double count);

}  // namespace twinstep
