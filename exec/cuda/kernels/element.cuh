// Element types in device code, and wide accesses to runs of them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "sim/graph/ids.h"

namespace twinstep::cuda {

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline float ToCompute(float x) { return x; }
__device__ inline double ToCompute(double x) { return x; }
__device__ inline float ToCompute(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float ToCompute(__half x) { return __half2float(x); }

__device__ inline void Round(float x, float* out) { *out = x; }
__device__ inline void Round(double x, double* out) { *out = x; }
__device__ inline void Round(float x, __nv_bfloat16* out) { *out = __float2bfloat16_rn(x); }
__device__ inline void Round(float x, __half* out) { *out = __float2half_rn(x); }

// Elements of the widest access.
template <typename T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

namespace element_internal {
template <int kBytes>
struct WordOf {
  using Type = std::conditional_t<
      kBytes % 16 == 0, uint4,
      std::conditional_t<
          kBytes == 8, uint2,
          std::conditional_t<kBytes == 4, std::uint32_t,
                             std::conditional_t<kBytes == 2, std::uint16_t, std::uint8_t>>>>;
};
}  // namespace element_internal

// kCount elements as they lie in memory, moved by accesses of 16 bytes (fewer if that is all).
template <typename T, int kCount>
struct Run {
  static constexpr int kBytes = static_cast<int>(sizeof(T)) * kCount;
  using Word = typename element_internal::WordOf<kBytes>::Type;
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));

  Word words[kWords];

  __device__ static Run Load(const T* from) {
    Run run;
    const Word* source = reinterpret_cast<const Word*>(from);
#pragma unroll
    for (int i = 0; i < kWords; ++i) run.words[i] = source[i];
    return run;
  }
  __device__ void Store(T* to) const {
    Word* target = reinterpret_cast<Word*>(to);
#pragma unroll
    for (int i = 0; i < kWords; ++i) target[i] = words[i];
  }
  __device__ static Run Zero() {
    Run run;
#pragma unroll
    for (int i = 0; i < kWords; ++i) run.words[i] = Word{};
    return run;
  }

  __device__ T& operator[](int i) { return reinterpret_cast<T*>(words)[i]; }
  __device__ const T& operator[](int i) const { return reinterpret_cast<const T*>(words)[i]; }
  __device__ Compute<T> Get(int i) const { return ToCompute((*this)[i]); }
  __device__ void Set(int i, Compute<T> x) { Round(x, &(*this)[i]); }
};

// Whether all pointers allow accesses of 16 bytes (or of `bytes`, if fewer).
template <typename... Pointers>
bool Aligned(std::uintptr_t bytes, const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % bytes == 0) && ...);
}

// Returns function(T{}) with the element type of a floating-point dtype.
template <typename Function>
cudaError_t WithElement(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::kBf16:
      return function(__nv_bfloat16{});
    case Dtype::kFp16:
      return function(__half{});
    case Dtype::kFp32:
      return function(float{});
    case Dtype::kFp64:
      return function(double{});
    case Dtype::kInt32:
    case Dtype::kUint8:
      break;
  }
  return cudaErrorInvalidValue;  // No operation computes with integers.
}

// Returns function(T{}, G{}) with the element types of activations and of weight gradients: the
// same, or the wider one that T computes in.
template <typename Function>
cudaError_t WithElements(Dtype dtype, Dtype gradient, Function&& function) {
  return WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    if (gradient == dtype) return function(element, element);
    if constexpr (!std::is_same_v<T, Compute<T>>) {
      if (gradient == Dtype::kFp32) return function(element, Compute<T>{});
    }
    return cudaErrorInvalidValue;
  });
}

}  // namespace twinstep::cuda
