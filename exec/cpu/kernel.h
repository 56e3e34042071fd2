// Operators of the CPU backend: the reference for every other backend's numbers.
//
// A kernel computes one task of the graph from pointers to its operands, in the order that
// sim/graph/op.h lists. Arithmetic: fp32 and fp64 as such; bf16 and fp16 are storage only, every
// operation reads them exactly into fp32, computes in fp32 and rounds once (to nearest even) on
// writing. Same input bytes give the same output bytes, from any thread: one BLAS thread, no fused
// contraction, every sum in an order that the shape alone decides.
//
//   ReserveScratch(graph.shapes);  // Once in each thread that runs kernels.
//   RunKernel({.shape = shape, .reads = reads, .writes = writes, .step = step, .place = place});
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/runtime/step_values.h"
#include "sim/graph/op.h"

namespace twinstep {

struct KernelCall {
  OpShape shape;
  Dtype gradient_dtype = Dtype::kFp32;  // Of weight gradients.
  Dtype state_dtype = Dtype::kFp32;     // Of master weights and moments.
  std::span<const std::byte* const> reads;
  std::span<std::byte* const> writes;
  const StepValues& step;
  TaskPlace place;
};

// Computes a COMPUTE or HOST task, or an on-device copy. Movement and collectives are the
// runtime's: for them IsKernel is false, and RunKernel aborts. Any number of threads may run
// kernels at once, on operands that do not overlap.
void RunKernel(const KernelCall& call);
// The same, and returns the bytes of scratch memory that the kernel took (BLAS has its own).
std::size_t RunKernelAndMeasureScratch(const KernelCall& call);
bool IsKernel(OpCode op);

// Makes sure that no kernel of these shapes allocates memory in the calling thread.
void ReserveScratch(std::span<const OpShape> shapes);

// Sums `parts` (equal lengths, at least one) element by element in their order into `sum`, which
// may be one of them: the arithmetic of all-reduce and reduce-scatter. bf16 and fp16 are summed in
// fp32 and rounded once. `exact_sum` marks kGradNorm's accumulators (op.h).
void SumInOrder(Dtype dtype, bool exact_sum, std::span<const std::byte* const> parts,
                std::size_t bytes, std::byte* sum);

}  // namespace twinstep
