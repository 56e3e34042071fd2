// One-threaded matrix products on row-major matrices.
#pragma once

#include <cstdint>
#include <string>

namespace twinstep {

// c[m, n] = alpha op(a) op(b) + beta c, where op transposes if asked to: op(a) is [m, k], op(b) is
// [k, n]; lda, ldb, ldc are the elements from one stored row to the next. With beta 0 the old c is
// not read. Same shapes and numbers give the same bits, whoever else calls at the same time,
// and however many: those whom the library has no room for wait.
struct MatrixProduct {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
};
void Multiply(const MatrixProduct& shape, float alpha, const float* a, std::int64_t lda,
              const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);
void Multiply(const MatrixProduct& shape, double alpha, const double* a, std::int64_t lda,
              const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc);

// The library, its version and the kernels that it has chosen for this processor:
// "OpenBLAS 0.3.21 SkylakeX".
std::string BlasVersion();

}  // namespace twinstep
