#include "exec/cuda/gemm.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "exec/cuda/bias.h"
#include "exec/cuda/cuda_error.h"
#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

constexpr int kCandidates = 32;
constexpr int kFinalists = 4;
constexpr int kFirstRepeats = 2;
// Finalists run in turn and long enough for the GPU's power limit to lower its clock, as training
// does: the fastest at full clock is not always the fastest there.
constexpr int kRounds = 3;
constexpr double kRoundSeconds = 8e-3;
constexpr int kMostRepeats = 32;
// Kernels that copy whole tiles need 16 bytes. The alignment beyond depends on where a plan places
// a tensor, so deterministic choices do not see it.
constexpr std::size_t kFullAlignment = 256, kTileAlignment = 16;
constexpr std::size_t kBiasAlignment = 16;
// What a multiprocessor computes at a time in cuBLASLt's fastest kernels for Hopper, rows (m) and
// columns (n) of a product; and the share of idle multiprocessors from which two products are
// tried.
constexpr std::int64_t kTileRows = 128, kTileColumns = 256;
constexpr double kIdleShare = 0.1;
// Two products must be faster by more than runs differ.
constexpr double kClearlyFaster = 0.98;

// A row-major [rows, columns] is column-major [columns, rows]: cuBLASLt's operands are the graph's
// transposed, A the one whose rows are features of the result.
struct Product {
  Dtype a_type, b_type, d_type;
  std::int64_t m, n, k;  // Of cuBLASLt: D is m x n, column-major.
  bool transpose_a, transpose_b;
  const void *a, *b;
  void* d;
};

Product ProductOf(const KernelCall& call) {
  const OpShape& shape = call.shape;
  const std::int64_t n = shape.dims[0], out = shape.dims[1], in = shape.dims[2];
  const Dtype t = shape.dtype;
  switch (shape.op) {
    case OpCode::kGemmForward:  // y[n, out] = x[n, in] W[out, in]^T
      return {t, t, t, out, n, in, true, false, call.reads[1], call.reads[0], call.writes[0]};
    case OpCode::kGemmDgrad:  // dx[n, in] = dy[n, out] W[out, in]
      return {t, t, t, in, n, out, false, false, call.reads[1], call.reads[0], call.writes[0]};
    default:  // dW[out, in] = dy[n, out]^T x[n, in]
      return {t,
              t,
              call.gradient_dtype,
              in,
              out,
              n,
              false,
              true,
              call.reads[0],
              call.reads[1],
              call.writes[0]};
  }
}

cudaDataType_t TypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp16:
      return CUDA_R_16F;
    case Dtype::kFp32:
      return CUDA_R_32F;
    case Dtype::kFp64:
      return CUDA_R_64F;
    default:
      return CUDA_R_16BF;
  }
}

std::size_t AlignmentOf(const void* x) {
  const auto address = reinterpret_cast<std::uintptr_t>(x);
  return address & (~address + 1);
}

int RepeatsOfRound(double seconds) {
  return static_cast<int>(
      std::clamp(kRoundSeconds / std::max(seconds, 1e-9), 2.0, double{kMostRepeats}));
}

bool Accumulates(const KernelCall& call) {
  return call.shape.op == OpCode::kGemmWgrad && Has(call, kAccumulateGradient);
}

bool HasForwardBias(const KernelCall& call) {
  return call.shape.op == OpCode::kGemmForward && Has(call, kHasBias);
}

}  // namespace

// Some of a product's columns, computed by one call.
struct GemmEngine::Part {
  Part() = default;
  Part(Part&& other) noexcept { *this = std::move(other); }
  Part& operator=(Part&& other) noexcept {
    std::swap(blas, other.blas);
    std::swap(b, other.b);
    std::swap(d, other.d);
    std::swap(b_offset, other.b_offset);
    std::swap(d_offset, other.d_offset);
    std::swap(algorithm, other.algorithm);
    return *this;
  }
  ~Part() {
    for (cublasLtMatrixLayout_t layout : {b, d}) {
      if (layout != nullptr) blas->LayoutDestroy(layout);
    }
  }

  const CublasLt* blas = nullptr;
  cublasLtMatrixLayout_t b = nullptr, d = nullptr;
  std::int64_t b_offset = 0, d_offset = 0;  // Bytes.
  cublasLtMatmulAlgo_t algorithm{};
};

struct GemmEngine::Plan {
  explicit Plan(const CublasLt* library) : blas(library) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (operation != nullptr) blas->DescDestroy(operation);
    if (a != nullptr) blas->LayoutDestroy(a);
  }

  const CublasLt* blas;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  std::vector<Part> parts;
  bool bias_in_epilogue = false;
};

bool IsGemm(OpCode op) {
  return op == OpCode::kGemmForward || op == OpCode::kGemmDgrad || op == OpCode::kGemmWgrad;
}

std::size_t GemmWorkspaceBytes(const OpShape& shape) {
  const bool bias_gradient = shape.op == OpCode::kGemmWgrad && (shape.flags & kHasBias) != 0;
  if (!bias_gradient) return kGemmWorkspaceBytes;
  return kGemmWorkspaceBytes +
         BiasGradientWorkspaceBytes(shape.dtype, shape.dims[0], shape.dims[1]);
}

std::size_t GemmEngine::KeyHash::operator()(const Key& key) const {
  return OpShapeHash{}(key.shape) * 31 + key.alignment * 16 + (key.adds ? 8 : 0) +
         static_cast<std::size_t>(key.gradient_dtype);
}

Result<std::unique_ptr<GemmEngine>> GemmEngine::Create(const Options& options) {
  const Result<const CublasLt*> blas = LoadCublasLt();
  if (!blas.ok()) return blas.error();
  std::unique_ptr<GemmEngine> engine(new GemmEngine(blas.value(), options));
  const Status made = engine->Check(blas.value()->Create(&engine->handle_), "cublasLtCreate");
  if (!made.ok()) return made.error();
  return engine;
}

GemmEngine::GemmEngine(const CublasLt* blas, const Options& options)
    : blas_(blas), options_(options) {}

GemmEngine::~GemmEngine() {
  plans_.clear();
  if (handle_ != nullptr) blas_->Destroy(handle_);
}

Status GemmEngine::Check(cublasStatus_t code, const char* what) const {
  if (code == CUBLAS_STATUS_SUCCESS) return Unit{};
  return Error{
      .code = ExitCode::kInternal,
      .message = StrCat("cuBLASLt ", blas_->Version(), ": ", what, ": ", blas_->StatusString(code)),
      .rule = "cublaslt"};
}

GemmEngine::Key GemmEngine::KeyOf(const KernelCall& call, const std::byte* residual) const {
  const Product product = ProductOf(call);
  std::size_t alignment =
      std::min({options_.deterministic ? kTileAlignment : kFullAlignment, AlignmentOf(product.a),
                AlignmentOf(product.b), AlignmentOf(product.d)});
  if (HasForwardBias(call)) alignment = std::min(alignment, AlignmentOf(call.reads[2]));
  if (residual != nullptr) alignment = std::min(alignment, AlignmentOf(residual));
  // Only these bits tell a kernel how to compute.
  return {WorkShape(call.shape), call.gradient_dtype, alignment, residual != nullptr};
}

Status GemmEngine::Describe(const KernelCall& call, std::size_t alignment, Plan* plan) const {
  const Product product = ProductOf(call);
  const bool is_double = product.a_type == Dtype::kFp64;
  const cublasOperation_t a_operation = product.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t b_operation = product.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const std::int64_t a_rows = product.transpose_a ? product.k : product.m;
  const std::int64_t a_columns = product.transpose_a ? product.m : product.k;
  for (const Status& status :
       {Check(
            blas_->DescCreate(&plan->operation, is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                              is_double ? CUDA_R_64F : CUDA_R_32F),
            "cublasLtMatmulDescCreate"),
        Check(blas_->DescSet(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &a_operation,
                             sizeof a_operation),
              "transposition of A"),
        Check(blas_->DescSet(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &b_operation,
                             sizeof b_operation),
              "transposition of B"),
        Check(blas_->LayoutCreate(&plan->a, TypeOf(product.a_type),
                                  static_cast<std::uint64_t>(a_rows),
                                  static_cast<std::uint64_t>(a_columns), a_rows),
              "layout of A")}) {
    if (!status.ok()) return status;
  }
  plan->bias_in_epilogue = HasForwardBias(call) && alignment >= kBiasAlignment && !is_double;
  if (!plan->bias_in_epilogue) return Unit{};
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  const void* const bias = call.reads[2];
  const Status set = Check(
      blas_->DescSet(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
      "epilogue");
  if (!set.ok()) return set;
  return Check(
      blas_->DescSet(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
      "bias");
}

Result<GemmEngine::Part> GemmEngine::DescribePart(const KernelCall& call, std::int64_t begin,
                                                  std::int64_t end) const {
  const Product product = ProductOf(call);
  const std::int64_t columns = end - begin;
  const std::int64_t b_rows = product.transpose_b ? columns : product.k;
  const std::int64_t b_columns = product.transpose_b ? product.k : columns;
  const std::int64_t b_stride = product.transpose_b ? product.n : product.k;
  Part part;
  part.blas = blas_;
  part.b_offset = begin * (product.transpose_b ? 1 : b_stride) * DtypeBytes(product.b_type);
  part.d_offset = begin * product.m * DtypeBytes(product.d_type);
  for (const Status& status :
       {Check(
            blas_->LayoutCreate(&part.b, TypeOf(product.b_type), static_cast<std::uint64_t>(b_rows),
                                static_cast<std::uint64_t>(b_columns), b_stride),
            "layout of B"),
        Check(blas_->LayoutCreate(&part.d, TypeOf(product.d_type),
                                  static_cast<std::uint64_t>(product.m),
                                  static_cast<std::uint64_t>(columns), product.m),
              "layout of D")}) {
    if (!status.ok()) return status.error();
  }
  return part;
}

Status GemmEngine::Multiply(const KernelCall& call, const std::byte* residual, const Plan& plan,
                            std::span<const Part> parts) const {
  const Product product = ProductOf(call);
  const float one = 1, beta = residual != nullptr || Accumulates(call) ? 1 : 0;
  const double wide_one = 1, wide_beta = beta;
  const bool is_double = product.a_type == Dtype::kFp64;
  for (const Part& part : parts) {
    std::byte* const d = static_cast<std::byte*>(product.d) + part.d_offset;
    const Status done = Check(
        blas_->Matmul(
            handle_, plan.operation,
            is_double ? static_cast<const void*>(&wide_one) : static_cast<const void*>(&one),
            product.a, plan.a, static_cast<const std::byte*>(product.b) + part.b_offset, part.b,
            is_double ? static_cast<const void*>(&wide_beta) : static_cast<const void*>(&beta),
            residual != nullptr ? residual + part.d_offset : d, part.d, d, part.d, &part.algorithm,
            call.workspace, kGemmWorkspaceBytes, call.stream),
        "cublasLtMatmul");
    if (!done.ok()) return done;
  }
  return Unit{};
}

Result<double> GemmEngine::Time(const KernelCall& call, const std::byte* residual, const Plan& plan,
                                std::span<const Part> parts, int repeats) const {
  std::array<cudaEvent_t, 2> events{};
  for (cudaEvent_t& event : events) {
    const Status made = CudaCall(cudaEventCreate(&event), "cudaEventCreate");
    if (!made.ok()) return made.error();
  }
  Status status = Multiply(call, residual, plan, parts);  // Loads the kernel.
  if (status.ok()) status = CudaCall(cudaEventRecord(events[0], call.stream), "cudaEventRecord");
  for (int i = 0; i < repeats && status.ok(); ++i) status = Multiply(call, residual, plan, parts);
  float milliseconds = 0;
  if (status.ok()) status = CudaCall(cudaEventRecord(events[1], call.stream), "cudaEventRecord");
  if (status.ok()) status = CudaCall(cudaEventSynchronize(events[1]), "cudaEventSynchronize");
  if (status.ok()) {
    status =
        CudaCall(cudaEventElapsedTime(&milliseconds, events[0], events[1]), "cudaEventElapsedTime");
  }
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  if (!status.ok()) return status.error();
  return static_cast<double>(milliseconds) * 1e-3 / repeats;
}

Status GemmEngine::Choose(const KernelCall& call, const std::byte* residual, std::size_t alignment,
                          const Plan& plan, Part* part) const {
  cublasLtMatmulPreference_t preference = nullptr;
  Status status = Check(blas_->PreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  if (!status.ok()) return status;
  const std::uint64_t workspace = kGemmWorkspaceBytes;
  const auto bytes = static_cast<std::uint32_t>(alignment);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    if (status.ok()) {
      status = Check(blas_->PreferenceSet(preference, name, &value, sizeof value),
                     "cublasLtMatmulPreferenceSetAttribute");
    }
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(operand, bytes);
  }
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  if (status.ok()) {
    status = Check(blas_->GetHeuristic(handle_, plan.operation, plan.a, part->b, part->d, part->d,
                                       preference, kCandidates, found.data(), &count),
                   "cublasLtMatmulAlgoGetHeuristic");
  }
  blas_->PreferenceDestroy(preference);
  if (!status.ok()) return status;
  if (count == 0) return CudaError("cuBLASLt has no algorithm for a GEMM of this shape");
  part->algorithm = found[0].algo;
  if (options_.deterministic || count == 1) return Unit{};

  const auto time = [&](int i, int repeats) {
    part->algorithm = found[static_cast<std::size_t>(i)].algo;
    return Time(call, residual, plan, {part, 1}, repeats);
  };
  std::vector<std::pair<double, int>> times;
  for (int i = 0; i < count; ++i) {
    const Result<double> seconds = time(i, kFirstRepeats);
    if (!seconds.ok()) return seconds.error();
    times.emplace_back(seconds.value(), i);
  }
  std::sort(times.begin(), times.end());
  times.resize(std::min<std::size_t>(times.size(), kFinalists));
  const int repeats = RepeatsOfRound(times[0].first);
  for (auto& [seconds, i] : times) seconds = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (auto& [sum, i] : times) {
      const Result<double> seconds = time(i, repeats);
      if (!seconds.ok()) return seconds.error();
      sum += seconds.value();
    }
  }
  const auto best = std::min_element(times.begin(), times.end());
  part->algorithm = found[static_cast<std::size_t>(best->second)].algo;
  return Unit{};
}

Result<std::int64_t> GemmEngine::ColumnsOfWholeRounds(const KernelCall& call) const {
  if (call.shape.op != OpCode::kGemmWgrad || options_.deterministic) return std::int64_t{0};
  int device = 0, multiprocessors = 0;
  for (const Status& asked :
       {CudaCall(cudaGetDevice(&device), "cudaGetDevice"),
        CudaCall(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                 "cudaDeviceGetAttribute")}) {
    if (!asked.ok()) return asked.error();
  }
  const Product product = ProductOf(call);
  const std::int64_t row_tiles = (product.m + kTileRows - 1) / kTileRows;
  const std::int64_t tiles = row_tiles * ((product.n + kTileColumns - 1) / kTileColumns);
  const std::int64_t rounds = (tiles + multiprocessors - 1) / multiprocessors;
  const double idle =
      1 - static_cast<double>(tiles) / static_cast<double>(rounds * multiprocessors);
  if (idle < kIdleShare) return std::int64_t{0};
  return (rounds - 1) * multiprocessors / row_tiles * kTileColumns;
}

Status GemmEngine::ChooseParts(const KernelCall& call, const std::byte* residual,
                               std::size_t alignment, Plan* plan) const {
  const std::int64_t columns = ProductOf(call).n;
  const auto choose = [&](std::int64_t begin, std::int64_t end,
                          std::vector<Part>* parts) -> Status {
    Result<Part> part = DescribePart(call, begin, end);
    if (!part.ok()) return part.error();
    parts->push_back(std::move(part).value());
    return Choose(call, residual, alignment, *plan, &parts->back());
  };
  if (const Status chosen = choose(0, columns, &plan->parts); !chosen.ok()) return chosen;
  const Result<std::int64_t> first = ColumnsOfWholeRounds(call);
  if (!first.ok()) return first.error();
  if (first.value() == 0) return Unit{};
  std::vector<Part> two;
  for (const Status& chosen :
       {choose(0, first.value(), &two), choose(first.value(), columns, &two)}) {
    if (!chosen.ok()) return chosen;
  }
  double whole_s = 0, two_s = 0;
  int repeats = kFirstRepeats;
  for (int round = 0; round <= kRounds; ++round) {  // The first says how long they take.
    for (const bool whole : {true, false}) {
      const Result<double> seconds =
          Time(call, residual, *plan, whole ? plan->parts : two, repeats);
      if (!seconds.ok()) return seconds.error();
      (whole ? whole_s : two_s) += round == 0 ? 0 : seconds.value();
      if (round == 0 && !whole) repeats = RepeatsOfRound(seconds.value());
    }
  }
  if (options_.prefer_two_products || two_s < kClearlyFaster * whole_s) std::swap(plan->parts, two);
  return Unit{};
}

Status GemmEngine::Prepare(const KernelCall& call, const std::byte* residual) {
  const Key key = KeyOf(call, residual);
  if (plans_.contains(key)) return Unit{};
  auto plan = std::make_unique<Plan>(blas_);
  if (const Status made = Describe(call, key.alignment, plan.get()); !made.ok()) return made;
  if (!options_.deterministic) {
    const Product product = ProductOf(call);
    const auto fill = [&](Dtype dtype, std::int64_t elements, const void* x) {
      return CudaCall(FillRandom(dtype, elements, const_cast<void*>(x), call.stream),
                      "random operands");
    };
    for (const Status& filled :
         {fill(product.a_type, product.m * product.k, product.a),
          fill(product.b_type, product.k * product.n, product.b),
          fill(product.d_type, product.m * product.n, product.d),
          residual == nullptr ? Status(Unit{})
                              : fill(product.d_type, product.m * product.n, residual)}) {
      if (!filled.ok()) return filled;
    }
  }
  if (const Status chosen = ChooseParts(call, residual, key.alignment, plan.get()); !chosen.ok()) {
    return Error{.code = ExitCode::kInternal,
                 .message = StrCat(Name(call.shape.op), " of ", call.shape.dims[0], " x ",
                                   call.shape.dims[1], " x ", call.shape.dims[2], ": ",
                                   chosen.error().message),
                 .rule = "cublaslt"};
  }
  plans_.emplace(key, std::move(plan));
  return Unit{};
}

Status GemmEngine::Launch(const KernelCall& call, const std::byte* residual) const {
  const auto found = plans_.find(KeyOf(call, residual));
  if (found == plans_.end()) return CudaError(StrCat(Name(call.shape.op), " was not prepared"));
  const Plan& plan = *found->second;
  const std::int64_t n = call.shape.dims[0], out = call.shape.dims[1];
  if (plan.bias_in_epilogue) {
    const void* const bias = call.reads[2];
    const Status set =
        Check(blas_->DescSet(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
              "bias");
    if (!set.ok()) return set;
  }
  if (const Status done = Multiply(call, residual, plan, plan.parts); !done.ok()) return done;
  if (HasForwardBias(call) && !plan.bias_in_epilogue) {
    return CudaCall(AddBias(call.shape.dtype, n, out, call.reads[2], call.writes[0], call.stream),
                    "bias");
  }
  if (call.shape.op == OpCode::kGemmWgrad && Has(call, kHasBias)) {
    return CudaCall(BiasGradient(call.shape.dtype, call.gradient_dtype, n, out, call.reads[1],
                                 Accumulates(call) ? call.reads[3] : nullptr, call.writes[1],
                                 call.workspace + kGemmWorkspaceBytes, call.stream),
                    "bias gradient");
  }
  return Unit{};
}

}  // namespace twinstep::cuda
