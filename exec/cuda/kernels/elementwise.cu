#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/kernels/gates.h"
#include "exec/cuda/kernels/rows.cuh"

namespace twinstep::cuda {
namespace {

// A row of an operand starts at base + row * stride; stride 0 repeats one row.
template <typename T>
struct Operand {
  T* base;
  std::int64_t stride;
};

// outputs = Function::Apply(inputs), element by element.
template <typename T, typename Function>
struct Map {
  static constexpr int kWidest = kWide<T>;
  static constexpr int kInputs = Function::kInputs, kOutputs = Function::kOutputs;

  Operand<const T> inputs[kInputs];
  Operand<T> outputs[kOutputs];  // Not written if null.

  template <int kCount>
  struct Input {
    Run<T, kCount> runs[kInputs];
  };

  template <int kCount>
  __device__ Input<kCount> Load(std::int64_t row, std::int64_t column) const {
    Input<kCount> input;
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      input.runs[i] = Run<T, kCount>::Load(inputs[i].base + row * inputs[i].stride + column);
    }
    return input;
  }

  template <int kCount>
  __device__ void Finish(std::int64_t row, std::int64_t column, const Input<kCount>& input) const {
    Run<T, kCount> results[kOutputs];
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      Compute<T> in[kInputs], out[kOutputs];
#pragma unroll
      for (int i = 0; i < kInputs; ++i) in[i] = input.runs[i].Get(j);
      Function::Apply(in, out);
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) results[i].Set(j, out[i]);
    }
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      if (outputs[i].base != nullptr) {
        results[i].Store(outputs[i].base + row * outputs[i].stride + column);
      }
    }
  }
};

template <typename T, typename Function>
cudaError_t LaunchMap(std::int64_t rows, std::int64_t width, const Map<T, Function>& map,
                      cudaStream_t stream) {
  bool aligned = true;
  for (const auto& x : map.inputs) aligned = aligned && Aligned(16, x.base);
  for (const auto& x : map.outputs) aligned = aligned && Aligned(16, x.base);
  return LaunchRows<(Function::kInputs == 1 ? 4 : 2)>(rows, width, aligned, stream, map);
}

// All operands contiguous.
template <typename Function>
cudaError_t LaunchFlat(const KernelCall& call, std::int64_t elements) {
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    Map<T, Function> map;
    for (int i = 0; i < Function::kInputs; ++i) map.inputs[i] = {Read<T>(call, i), 0};
    for (int i = 0; i < Function::kOutputs; ++i) map.outputs[i] = {Write<T>(call, i), 0};
    return LaunchMap(1, elements, map, call.stream);
  });
}

// The derivative by SiLU's input, and silu as the forward stored it, by what the other factor
// needs.
template <typename T>
struct SwiGlu {
  static constexpr int kInputs = 2, kOutputs = 2;  // gate, up -> silu, act
  __device__ static void Apply(const Compute<T>* in, Compute<T>* out) {
    T silu;
    Round(in[0] * Sigmoid(in[0]), &silu);
    out[0] = ToCompute(silu);
    out[1] = out[0] * in[1];
  }
};

template <typename T>
struct SwiGluGradient {
  static constexpr int kInputs = 3, kOutputs = 2;  // dact, gate, up -> dgate, dup
  __device__ static void Apply(const Compute<T>* in, Compute<T>* out) {
    using C = Compute<T>;
    const C u = in[1];
    const C gate = Sigmoid(u);
    T dsilu, silu;
    Round(in[0] * in[2], &dsilu);
    Round(u * gate, &silu);
    out[0] = ToCompute(dsilu) * (gate * (C{1} + u * (C{1} - gate)));
    out[1] = in[0] * ToCompute(silu);
  }
};

}  // namespace

cudaError_t LaunchActivationForward(const KernelCall& call) {
  const std::int64_t elements = call.shape.dims[0] * call.shape.dims[1];
  return Has(call, kRelu) ? LaunchFlat<Relu>(call, elements) : LaunchFlat<Gelu>(call, elements);
}

cudaError_t LaunchActivationBackward(const KernelCall& call) {
  const std::int64_t elements = call.shape.dims[0] * call.shape.dims[1];
  return Has(call, kRelu) ? LaunchFlat<ReluGradient>(call, elements)
                          : LaunchFlat<GeluGradient>(call, elements);
}

// In a row of gate_up[n, 2 f] the gate half comes first.

cudaError_t LaunchSiluForward(const KernelCall& call) {
  const std::int64_t n = call.shape.dims[0], f = call.shape.dims[1];
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return LaunchMap<T, Silu>(
        n, f, {.inputs = {{Read<T>(call, 0), 2 * f}}, .outputs = {{Write<T>(call, 0), f}}},
        call.stream);
  });
}

cudaError_t LaunchSiluBackward(const KernelCall& call) {
  const std::int64_t n = call.shape.dims[0], f = call.shape.dims[1];
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return LaunchMap<T, SiluGradient>(n, f,
                                      {.inputs = {{Read<T>(call, 0), f}, {Read<T>(call, 1), 2 * f}},
                                       .outputs = {{Write<T>(call, 0), 2 * f}}},
                                      call.stream);
  });
}

cudaError_t LaunchMulForward(const KernelCall& call) {
  const std::int64_t n = call.shape.dims[0], f = call.shape.dims[1];
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return LaunchMap<T, Product>(n, f,
                                 {.inputs = {{Read<T>(call, 0), f}, {Read<T>(call, 1) + f, 2 * f}},
                                  .outputs = {{Write<T>(call, 0), f}}},
                                 call.stream);
  });
}

cudaError_t LaunchMulBackward(const KernelCall& call) {
  const std::int64_t n = call.shape.dims[0], f = call.shape.dims[1];
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return LaunchMap<T, ProductGradients>(
        n, f,
        {.inputs = {{Read<T>(call, 0), f}, {Read<T>(call, 1), f}, {Read<T>(call, 2) + f, 2 * f}},
         .outputs = {{Write<T>(call, 0), f}, {Write<T>(call, 1) + f, 2 * f}}},
        call.stream);
  });
}

cudaError_t LaunchAdd(const KernelCall& call) {
  const std::int64_t n = call.shape.dims[0], f = call.shape.dims[1];
  if (!Has(call, kHasBias)) return LaunchFlat<Sum>(call, n * f);
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    return LaunchMap<T, BiasedSum>(
        n, f,
        {.inputs = {{Read<T>(call, 0), f}, {Read<T>(call, 1), f}, {Read<T>(call, 2), 0}},
         .outputs = {{Write<T>(call, 0), f}}},
        call.stream);
  });
}

cudaError_t LaunchAccumulate(const KernelCall& call) {
  return LaunchFlat<Sum>(call, call.shape.dims[0]);
}

cudaError_t LaunchCopyOnDevice(const KernelCall& call) {
  return cudaMemcpyAsync(call.writes[0], call.reads[0],
                         static_cast<std::size_t>(call.shape.dims[0]), cudaMemcpyDeviceToDevice,
                         call.stream);
}

cudaError_t LaunchSwiGluForward(Dtype dtype, std::int64_t n, std::int64_t f,
                                const std::byte* gate_up, std::byte* silu, std::byte* act,
                                cudaStream_t stream) {
  return WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    const T* gate = reinterpret_cast<const T*>(gate_up);
    return LaunchMap<T, SwiGlu<T>>(
        n, f,
        {.inputs = {{gate, 2 * f}, {gate + f, 2 * f}},
         .outputs = {{reinterpret_cast<T*>(silu), f}, {reinterpret_cast<T*>(act), f}}},
        stream);
  });
}

cudaError_t LaunchSwiGluBackward(Dtype dtype, std::int64_t n, std::int64_t f, const std::byte* dact,
                                 const std::byte* gate_up, std::byte* dgate_up,
                                 cudaStream_t stream) {
  return WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    const T* gate = reinterpret_cast<const T*>(gate_up);
    T* dgate = reinterpret_cast<T*>(dgate_up);
    return LaunchMap<T, SwiGluGradient<T>>(
        n, f,
        {.inputs = {{reinterpret_cast<const T*>(dact), f}, {gate, 2 * f}, {gate + f, 2 * f}},
         .outputs = {{dgate, 2 * f}, {dgate + f, 2 * f}}},
        stream);
  });
}

}  // namespace twinstep::cuda
