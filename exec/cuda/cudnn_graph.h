// cuDNN's backend graphs: tensors and operations on them, planned for one device into kernels.
//
//   CudnnGraph graph(cudnn);
//   const auto x = graph.Input(1, {b, h, m, k}, x_strides, CUDNN_DATA_BFLOAT16);
//   const auto w = graph.Input(2, {b, h, k, n}, w_strides, CUDNN_DATA_BFLOAT16);
//   graph.Output(graph.Matmul(x, w), 3, y_strides, CUDNN_DATA_BFLOAT16);
//   Result<CudnnPlan> plan = std::move(graph).Plan(device);
//   Status done = plan.value().Execute(handle, pointers, workspace);
//
// Tensors have four dimensions. Intermediate results are fp32 and packed unless said otherwise. The
// first failure is kept and returned by Plan; calls after it do nothing.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "exec/cuda/libraries.h"
#include "sim/result.h"

namespace twinstep {

// Owns one descriptor of cuDNN's backend.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const Cudnn* cudnn, cudnnBackendDescriptorType_t type, Status* status);

  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void SetDescriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void SetInt(cudnnBackendAttributeName_t name, std::int64_t value);
  void Finalize();
  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

 private:
  struct Destroy {
    const Cudnn* cudnn;
    void operator()(void* descriptor) const { cudnn->DestroyDescriptor(descriptor); }
  };
  void Check(cudnnStatus_t code, const char* what);

  const Cudnn* cudnn_;
  Status* status_;
  std::unique_ptr<void, Destroy> descriptor_;
};

// Error with cuDNN's own explanation.
Error CudnnError(const Cudnn& cudnn, cudnnStatus_t code, const char* what);

class CudnnPlan {
 public:
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  // On the handle's stream. Pointers by the unique ids that the graph gave to its inputs and
  // outputs; workspace_bytes() of scratch.
  Status Execute(cudnnHandle_t handle, std::span<const std::pair<std::int64_t, void*>> pointers,
                 void* workspace) const;

 private:
  friend class CudnnGraph;
  CudnnPlan() = default;

  const Cudnn* cudnn_ = nullptr;
  // All descriptors that the plan was made from, the plan itself last.
  std::unique_ptr<Status> status_;
  std::vector<std::unique_ptr<CudnnDescriptor>> descriptors_;
  std::vector<std::pair<std::int64_t, void*>> scalars_;
  std::unique_ptr<std::deque<std::variant<float, std::int32_t>>> scalar_values_;
  std::int64_t workspace_bytes_ = 0;
};

class CudnnGraph {
 public:
  using Dims = std::array<std::int64_t, 4>;
  using Tensor = std::size_t;  // Within this graph.

  explicit CudnnGraph(const Cudnn* cudnn);

  // Operands in memory; unique ids are the caller's, above zero.
  Tensor Input(std::int64_t uid, const Dims& dims, const Dims& strides, cudnnDataType_t type);
  // fp32 or int32 scalar, part of the plan.
  Tensor Scalar(float value);
  Tensor Scalar(std::int32_t value);
  // Elementwise; y has x's dimensions. `type` of the result; arithmetic in it too where it is
  // boolean or int32, else in fp32.
  Tensor Pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> operands,
                   cudnnDataType_t type = CUDNN_DATA_FLOAT);
  // Index along `axis` of each element of x.
  Tensor Index(Tensor x, std::int64_t axis);
  Tensor Matmul(Tensor a, Tensor b, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  // Over each axis where `dims` has 1 (or fewer heads) and x more.
  Tensor Reduce(cudnnReduceTensorOp_t op, Tensor x, const Dims& dims);
  // The same elements with the last two axes exchanged.
  Tensor Transpose(Tensor x, cudnnDataType_t type);
  // Makes the result of an operation one in memory.
  void Output(Tensor x, std::int64_t uid, const Dims& strides, cudnnDataType_t type);

  // The best configuration of cuDNN's heuristics for the CUDA device of this number.
  Result<CudnnPlan> Plan(std::int32_t device) &&;

 private:
  struct TensorSpec {
    std::int64_t uid = 0;
    Dims dims{}, strides{};
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    bool is_virtual = true;
    bool is_scalar = false;
  };
  struct Operation {
    enum Kind { kPointwise, kMatmul, kReduce, kReshape } kind = kPointwise;
    std::vector<Tensor> in;
    Tensor out = 0;
    cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
    cudnnReduceTensorOp_t reduction = CUDNN_REDUCE_TENSOR_ADD;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    std::int64_t axis = -1;
  };

  Tensor Virtual(const Dims& dims, cudnnDataType_t type);
  Tensor ScalarAt(void* value, cudnnDataType_t type);
  CudnnDescriptor* New(cudnnBackendDescriptorType_t type);
  void MakeTensors();
  CudnnDescriptor* MakeOperation(const Operation& operation);

  const Cudnn* cudnn_;
  std::vector<TensorSpec> tensors_;
  std::vector<Operation> operations_;
  std::vector<CudnnDescriptor*> made_;  // By tensor.
  CudnnPlan plan_;
};

}  // namespace twinstep
