#include "exec/cuda/kernels/adam.h"
#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/rows.cuh"

namespace twinstep::cuda {
namespace {

__device__ inline float Root(float x) { return sqrtf(x); }
__device__ inline double Root(double x) { return sqrt(x); }

// Moments and master weights are in the type S that T computes in. `master` and `parameter` may be
// the same.
template <typename T, typename G>
struct Update {
  using S = Compute<T>;
  // 16 bytes of the widest operand: a warp's access is contiguous in every operand.
  static constexpr int kWidest = kWide<S>;

  const DeviceStep* step;
  const double* clip;  // null: 1.
  std::int64_t undecayed;
  const G* gradient;
  S *m, *v, *master;
  T* parameter;

  template <int kCount>
  struct Input {
    Run<G, kCount> gradient;
    Run<S, kCount> m, v, master;
  };

  template <int kCount>
  __device__ Input<kCount> Load(std::int64_t, std::int64_t i) const {
    return {Run<G, kCount>::Load(gradient + i), Run<S, kCount>::Load(m + i),
            Run<S, kCount>::Load(v + i), Run<S, kCount>::Load(master + i)};
  }

  template <int kCount>
  __device__ void Finish(std::int64_t, std::int64_t i, Input<kCount>& x) const {
    const S scale = clip == nullptr ? S{1} : static_cast<S>(*clip);
    const S beta1 = static_cast<S>(step->beta1), beta2 = static_cast<S>(step->beta2);
    const S rest1 = static_cast<S>(step->rest1), rest2 = static_cast<S>(step->rest2);
    const S step_size = static_cast<S>(step->step_size);
    const S correction = static_cast<S>(step->inverse_correction2);
    const S epsilon = static_cast<S>(step->epsilon), keep = static_cast<S>(step->keep);
    Run<T, kCount> rounded;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const S g = scale * static_cast<S>(x.gradient.Get(j));
      const S new_m = beta1 * x.m.Get(j) + rest1 * g;
      const S new_v = beta2 * x.v.Get(j) + rest2 * g * g;
      const S denominator = Root(new_v) * correction + epsilon;
      const S kept = i + j < undecayed ? x.master.Get(j) : keep * x.master.Get(j);
      const S w = kept - step_size * (new_m / denominator);
      x.m.Set(j, new_m);
      x.v.Set(j, new_v);
      x.master.Set(j, w);
      rounded.Set(j, w);
    }
    x.m.Store(m + i);
    x.v.Store(v + i);
    if constexpr (std::is_same_v<S, T>) {
      if (parameter != master) rounded.Store(parameter + i);
    } else {
      rounded.Store(parameter + i);
    }
    x.master.Store(master + i);
  }
};

}  // namespace

// Operands in the order of reads: gradient, [master], m, v, [parameter], [clip]; of writes:
// [master], m, v, parameter.
cudaError_t LaunchAdam(const KernelCall& call) {
  return WithElements(call.shape.dtype, call.gradient_dtype, [&](auto element, auto gradient) {
    using T = decltype(element);
    using G = decltype(gradient);
    using S = Compute<T>;
    const bool in_place = Has(call, kMasterIsParameter);
    // A parameter narrower than the states cannot be its own master.
    if (in_place && !std::is_same_v<S, T>) return cudaErrorInvalidValue;
    const std::size_t moments = in_place ? 0 : 1;
    const Update<T, G> body{call.step,
                            Has(call, kHasClip) ? Read<double>(call, 4) : nullptr,
                            call.shape.dims[1],
                            Read<G>(call, 0),
                            Write<S>(call, moments),
                            Write<S>(call, moments + 1),
                            in_place ? Write<S>(call, moments + 2) : Write<S>(call, 0),
                            Write<T>(call, moments + 2)};
    const bool aligned = Aligned(16, body.gradient, body.m, body.v, body.master, body.parameter);
    return LaunchRows(1, call.shape.dims[0], aligned, call.stream, body);
  });
}

}  // namespace twinstep::cuda
