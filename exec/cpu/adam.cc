#include "exec/cpu/adam.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exec/cpu/element.h"
#include "exec/cpu/operands.h"
#include "exec/cpu/vector_clones.h"

namespace twinstep {
namespace {

template <typename C>
struct Coefficients {
  C clip, beta1, beta2, rest1, rest2, step_size, inverse_correction2, epsilon;
};

template <typename C>
Coefficients<C> MakeCoefficients(const StepValues& step, double clip) {
  const auto t = static_cast<double>(step.step + 1);
  const auto as = [](double x) { return static_cast<C>(x); };
  return {.clip = as(clip),
          .beta1 = as(step.beta1),
          .beta2 = as(step.beta2),
          .rest1 = as(1 - step.beta1),
          .rest2 = as(1 - step.beta2),
          .step_size = as(step.learning_rate / (1 - std::pow(step.beta1, t))),
          .inverse_correction2 = as(1 / std::sqrt(1 - std::pow(step.beta2, t))),
          .epsilon = as(step.epsilon)};
}

// Elements [begin, end); `weights` are read from `master` and written to `master` and `parameter`,
// which may be the same.
template <typename G, typename S, typename T>
void Update(const Coefficients<S>& c, S keep, std::int64_t begin, std::int64_t end,
            const G* gradient, S* m, S* v, S* master, T* parameter) {
  for (std::int64_t i = begin; i < end; ++i) {
    const S g = c.clip * static_cast<S>(Load(gradient[i]));
    const S new_m = c.beta1 * m[i] + c.rest1 * g;
    const S new_v = c.beta2 * v[i] + c.rest2 * g * g;
    const S denominator = std::sqrt(new_v) * c.inverse_correction2 + c.epsilon;
    const S w = keep * master[i] - c.step_size * (new_m / denominator);
    m[i] = new_m;
    v[i] = new_v;
    master[i] = w;
    Store(static_cast<Compute<T>>(w), &parameter[i]);
  }
}

// Operands in the order of reads: gradient, [master], m, v, [parameter], [clip]; of writes:
// [master], m, v, parameter.
template <typename T, typename G, typename S>
void Run(const KernelCall& call) {
  const bool in_place = Has(call, kMasterIsParameter);
  const std::int64_t elements = Dim(call, 0);
  const double clip = Has(call, kHasClip) ? *Read<double>(call, 4) : 1;
  const Coefficients<S> coefficients = MakeCoefficients<S>(call.step, clip);
  const std::size_t moments = in_place ? 0 : 1;
  S* m = Write<S>(call, moments);
  S* v = Write<S>(call, moments + 1);
  T* parameter = Write<T>(call, moments + 2);
  S* master = in_place ? Write<S>(call, moments + 2) : Write<S>(call, 0);
  const std::int64_t undecayed = std::min(Dim(call, 1), elements);
  const S keep = static_cast<S>(1 - call.step.learning_rate * call.step.weight_decay);
  const G* gradient = Read<G>(call, 0);
  Update(coefficients, S{1}, 0, undecayed, gradient, m, v, master, parameter);
  Update(coefficients, keep, undecayed, elements, gradient, m, v, master, parameter);
}

}  // namespace

TWINSTEP_VECTOR_CLONES void Adam(const KernelCall& call) {
  WithElements(call.shape.dtype, call.gradient_dtype, [&](auto element, auto gradient) {
    using T = decltype(element);
    // Moments and master weights are in the type that T computes in.
    Run<T, decltype(gradient), Compute<T>>(call);
  });
}

}  // namespace twinstep
