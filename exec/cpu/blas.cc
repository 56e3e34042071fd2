#include "exec/cpu/blas.h"

#include <cblas.h>

#include <atomic>
#include <sstream>

namespace twinstep {
namespace {

CBLAS_TRANSPOSE Transpose(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

blasint Size(std::int64_t size) { return static_cast<blasint>(size); }

// Several BLAS threads would give other bits than one, and concurrent callers other bits each time.
void UseOneThread() {
  [[maybe_unused]] static const bool done = [] {
    openblas_set_num_threads(1);
    return true;
  }();
}

// OpenBLAS has a packing buffer for each of so many concurrent callers (Debian's build); one more
// makes it write through a null pointer.
constexpr int kMostCallers = 128;
std::atomic<int> free_callers{kMostCallers};

class Call {
 public:
  Call() {
    UseOneThread();
    int left = free_callers.load(std::memory_order_relaxed);
    do {
      while (left == 0) {
        free_callers.wait(0, std::memory_order_relaxed);
        left = free_callers.load(std::memory_order_relaxed);
      }
    } while (!free_callers.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                                 std::memory_order_relaxed));
  }
  ~Call() {
    free_callers.fetch_add(1, std::memory_order_release);
    free_callers.notify_one();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

}  // namespace

void Multiply(const MatrixProduct& shape, float alpha, const float* a, std::int64_t lda,
              const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  const Call call;
  cblas_sgemm(CblasRowMajor, Transpose(shape.transpose_a), Transpose(shape.transpose_b),
              Size(shape.m), Size(shape.n), Size(shape.k), alpha, a, Size(lda), b, Size(ldb), beta,
              c, Size(ldc));
}

void Multiply(const MatrixProduct& shape, double alpha, const double* a, std::int64_t lda,
              const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  const Call call;
  cblas_dgemm(CblasRowMajor, Transpose(shape.transpose_a), Transpose(shape.transpose_b),
              Size(shape.m), Size(shape.n), Size(shape.k), alpha, a, Size(lda), b, Size(ldb), beta,
              c, Size(ldc));
}

std::string BlasVersion() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ... MAX_THREADS=64": name and version.
  std::istringstream config(openblas_get_config());
  std::string name, version;
  config >> name >> version;
  return name + " " + version + " " + openblas_get_corename();
}

}  // namespace twinstep
