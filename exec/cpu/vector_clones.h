// TWINSTEP_VECTOR_CLONES before the definition of a kernel compiles it, with all that it calls in
// its file, for several vector widths; the processor's widest is chosen when the program starts.
// All give the same bits: the order of sums is written out (vector_math.h), and nothing is
// contracted.
#pragma once

// Sanitizers instrument the function that chooses, which runs before they are ready.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TWINSTEP_VECTOR_CLONES __attribute__((flatten, target_clones("avx512f", "avx2", "default")))
#else
#define TWINSTEP_VECTOR_CLONES
#endif
