// A small profile in the form that PyTorch writes, made by hand.
#pragma once

#include <string>

namespace twinstep::testing {

// Two steps on stream 7 with a collective on stream 20, launched by a main thread (1) and
// autograd's (2). Kernels: 100 + 50 us of step 1; 110 + 40.5 + 60 us of step 2; the copy takes 10
// us, the collective of step 2 30 us, of which 20 us run beside the last kernel.
inline std::string TinyProfile() {
  return R"json({
"schemaVersion": 1,
"deviceProperties": [{"id": 0, "name": "NVIDIA Test", "totalGlobalMem": 1}],
"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
"baseTimeNanoseconds": 1700000000000000000,
"traceEvents": [
{"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "ts": 0, "args": {"name": "python"}},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 9, "tid": 1, "ts": 1000.000, "dur": 400},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "pid": 9, "tid": 1, "ts": 1400.000, "dur": 500},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 1, "ts": 1005, "dur": 40, "args": {"Input Dims": [[8, 8], [8, 8]]}},
{"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward0", "pid": 9, "tid": 2, "ts": 1100, "dur": 60},
{"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: CheckpointFunctionBackward", "pid": 9, "tid": 2, "ts": 1450, "dur": 100},
{"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward0", "pid": 9, "tid": 2, "ts": 1480, "dur": 30},
{"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#AdamW.step", "pid": 9, "tid": 1, "ts": 1600, "dur": 50},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": 1010, "dur": 5, "args": {"correlation": 11}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 2, "ts": 1110, "dur": 5, "args": {"correlation": 12}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 9, "tid": 1, "ts": 1405, "dur": 5, "args": {"correlation": 20}},
{"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernelEx", "pid": 9, "tid": 1, "ts": 1410, "dur": 5, "args": {"correlation": 21}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 2, "ts": 1460, "dur": 5, "args": {"correlation": 22}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 2, "ts": 1490, "dur": 5, "args": {"correlation": 23}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": 1610, "dur": 5, "args": {"correlation": 24}},
{"ph": "X", "cat": "kernel", "name": "nvjet_tst_64x8", "pid": 0, "tid": 7, "ts": 1020, "dur": 100, "args": {"device": 0, "stream": 7, "correlation": 11, "grid": [1, 1, 1]}},
{"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x64_nn", "pid": 0, "tid": 7, "ts": 1130, "dur": 50, "args": {"device": 0, "stream": 7, "correlation": 12}},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": 1420.5, "dur": 10, "args": {"device": 0, "stream": 7, "correlation": 20, "bytes": 4096}},
{"ph": "X", "cat": "kernel", "name": "nvjet_tst_64x8", "pid": 0, "tid": 7, "ts": 1440, "dur": 110, "args": {"device": 0, "stream": 7, "correlation": 21}},
{"ph": "X", "cat": "kernel", "name": "nvjet_tst_64x8", "pid": 0, "tid": 7, "ts": 1560, "dur": 40.5, "args": {"device": 0, "stream": 7, "correlation": 22}},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 20, "ts": 1600.5, "dur": 30, "args": {"device": 0, "stream": 20, "correlation": 23, "Collective name": "all_to_allv", "In msg nelems": 1024, "Out msg nelems": 512, "dtype": "BFloat16", "Group size": 8, "Process Group Name": "1"}},
{"ph": "X", "cat": "kernel", "name": "void multi_tensor_apply_kernel<FusedAdam>()", "pid": 0, "tid": 7, "ts": 1610.5, "dur": 60, "args": {"device": 0, "stream": 7, "correlation": 24}},
{"ph": "X", "cat": "mtia_ccp_events", "name": "something new", "pid": 4, "tid": 4, "ts": 1500, "dur": 7},
{"ph": "s", "id": 11, "pid": 9, "tid": 1, "ts": 1010, "cat": "ac2g", "name": "ac2g"},
{"ph": "f", "id": 11, "pid": 0, "tid": 7, "ts": 1020, "cat": "ac2g", "name": "ac2g", "bp": "e"},
{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 990, "dur": 1000}
],
"traceName": "tiny.json"
}
)json";
}

}  // namespace twinstep::testing
