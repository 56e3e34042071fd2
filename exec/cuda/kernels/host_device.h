// Functions that kernels call and that tests call on the host.
#pragma once

#ifdef __CUDACC__
#define TWINSTEP_HD __host__ __device__ inline
#else
#define TWINSTEP_HD inline
#endif
