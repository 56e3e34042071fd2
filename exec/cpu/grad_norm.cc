#include "exec/cpu/grad_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "exec/cpu/element.h"
#include "exec/cpu/exact_sum.h"
#include "exec/cpu/operands.h"

namespace twinstep {
namespace {

constexpr double kNormEpsilon = 1e-6;

ExactSum LoadSum(const std::byte* from) {
  ExactSum::Limbs limbs;
  std::memcpy(limbs.data(), from, sizeof limbs);
  return ExactSum(limbs);
}

template <typename G>
void AddSquares(const G* gradient, std::int64_t begin, std::int64_t end, ExactSum& sum) {
  constexpr std::int64_t kBlock = 1024;
  std::array<double, kBlock> squares;
  for (std::int64_t i = begin; i < end; i += kBlock) {
    const std::int64_t count = std::min(kBlock, end - i);
    for (std::int64_t j = 0; j < count; ++j) {
      const double x = Load(gradient[i + j]);
      squares[static_cast<std::size_t>(j)] = x * x;
    }
    sum.Add({squares.data(), static_cast<std::size_t>(count)});
  }
}

}  // namespace

void GradNorm(const KernelCall& call) {
  ExactSum sum;
  if (Has(call, kAccumulateGradient)) sum = LoadSum(call.reads[1]);
  const std::int64_t elements = Dim(call, 0) / call.shape.count;
  const std::int64_t first = call.shape.index * elements;
  const std::int64_t begin = std::clamp<std::int64_t>(Dim(call, 1) - first, 0, elements);
  const std::int64_t end = std::clamp<std::int64_t>(Dim(call, 2) - first, 0, elements);
  WithElement(call.shape.dtype, [&](auto gradient) {
    AddSquares(Read<decltype(gradient)>(call, 0), begin, end, sum);
  });
  std::memcpy(call.writes[0], sum.limbs().data(), sizeof sum.limbs());
}

void ClipCoefficient(const KernelCall& call) {
  const double norm = std::sqrt(LoadSum(call.reads[0]).value());
  const double coefficient = call.step.clip_norm / (norm + kNormEpsilon);
  // A NaN stays one.
  *Write<double>(call, 0) = coefficient > 1 ? 1 : coefficient;
}

}  // namespace twinstep
