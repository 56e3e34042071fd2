#include "exec/cuda/cudnn_graph.h"

#include <algorithm>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::int64_t kAlignment = 16;
constexpr std::int64_t kFirstVirtual = 1'000'000;  // Unique ids of tensors not in memory.

CudnnGraph::Dims Packed(const CudnnGraph::Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

}  // namespace

Error CudnnError(const Cudnn& cudnn, cudnnStatus_t code, const char* what) {
  std::array<char, 1024> detail{};
  cudnn.LastErrorString(detail.data(), detail.size());
  return {.code = ExitCode::kInternal,
          .message = StrCat("cuDNN ", cudnn.Version(), ": ", what, ": ", cudnn.ErrorString(code),
                            detail[0] == '\0' ? "" : ": ", detail.data()),
          .rule = "cudnn"};
}

CudnnDescriptor::CudnnDescriptor(const Cudnn* cudnn, cudnnBackendDescriptorType_t type,
                                 Status* status)
    : cudnn_(cudnn), status_(status), descriptor_(nullptr, Destroy{cudnn}) {
  if (!status_->ok()) return;
  cudnnBackendDescriptor_t made = nullptr;
  Check(cudnn_->CreateDescriptor(type, &made), "cudnnBackendCreateDescriptor");
  descriptor_.reset(made);
}

void CudnnDescriptor::Check(cudnnStatus_t code, const char* what) {
  if (code != CUDNN_STATUS_SUCCESS && status_->ok()) *status_ = CudnnError(*cudnn_, code, what);
}

void CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  if (!status_->ok()) return;
  Check(cudnn_->SetAttribute(get(), name, type, count, values), "cudnnBackendSetAttribute");
}

void CudnnDescriptor::SetDescriptor(cudnnBackendAttributeName_t name,
                                    const CudnnDescriptor& value) {
  const cudnnBackendDescriptor_t descriptor = value.get();
  Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

void CudnnDescriptor::SetInt(cudnnBackendAttributeName_t name, std::int64_t value) {
  Set(name, CUDNN_TYPE_INT64, 1, &value);
}

void CudnnDescriptor::Finalize() {
  if (status_->ok()) Check(cudnn_->Finalize(get()), "cudnnBackendFinalize");
}

Status CudnnPlan::Execute(cudnnHandle_t handle,
                          std::span<const std::pair<std::int64_t, void*>> pointers,
                          void* workspace) const {
  constexpr std::size_t kMost = 32;
  std::array<std::int64_t, kMost> uids{};
  std::array<void*, kMost> addresses{};
  std::size_t count = 0;
  for (const auto& list : {pointers, std::span<const std::pair<std::int64_t, void*>>(scalars_)}) {
    for (const auto& [uid, address] : list) {
      uids[count] = uid;
      addresses[count++] = address;
    }
  }
  Status status = Unit{};
  CudnnDescriptor pack(cudnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &status);
  const auto size = static_cast<std::int64_t>(count);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, size, uids.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, size, addresses.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.Finalize();
  if (!status.ok()) return status;
  const cudnnStatus_t code = cudnn_->Execute(handle, descriptors_.back()->get(), pack.get());
  if (code != CUDNN_STATUS_SUCCESS) return CudnnError(*cudnn_, code, "cudnnBackendExecute");
  return Unit{};
}

CudnnGraph::CudnnGraph(const Cudnn* cudnn) : cudnn_(cudnn) {
  plan_.cudnn_ = cudnn;
  plan_.status_ = std::make_unique<Status>(Unit{});
  plan_.scalar_values_ = std::make_unique<std::deque<std::variant<float, std::int32_t>>>();
}

CudnnGraph::Tensor CudnnGraph::Virtual(const Dims& dims, cudnnDataType_t type) {
  tensors_.push_back({.uid = kFirstVirtual + static_cast<std::int64_t>(tensors_.size()),
                      .dims = dims,
                      .strides = Packed(dims),
                      .type = type});
  return tensors_.size() - 1;
}

CudnnGraph::Tensor CudnnGraph::Input(std::int64_t uid, const Dims& dims, const Dims& strides,
                                     cudnnDataType_t type) {
  tensors_.push_back(
      {.uid = uid, .dims = dims, .strides = strides, .type = type, .is_virtual = false});
  return tensors_.size() - 1;
}

CudnnGraph::Tensor CudnnGraph::ScalarAt(void* value, cudnnDataType_t type) {
  const Tensor scalar = Virtual({1, 1, 1, 1}, type);
  tensors_[scalar].is_virtual = false;
  tensors_[scalar].is_scalar = true;
  plan_.scalars_.emplace_back(tensors_[scalar].uid, value);
  return scalar;
}

CudnnGraph::Tensor CudnnGraph::Scalar(float value) {
  auto& kept = plan_.scalar_values_->emplace_back(value);
  return ScalarAt(std::get_if<float>(&kept), CUDNN_DATA_FLOAT);
}

CudnnGraph::Tensor CudnnGraph::Scalar(std::int32_t value) {
  auto& kept = plan_.scalar_values_->emplace_back(value);
  return ScalarAt(std::get_if<std::int32_t>(&kept), CUDNN_DATA_INT32);
}

CudnnGraph::Tensor CudnnGraph::Pointwise(cudnnPointwiseMode_t mode,
                                         std::initializer_list<Tensor> operands,
                                         cudnnDataType_t type) {
  const bool of_type = type == CUDNN_DATA_BOOLEAN || type == CUDNN_DATA_INT32;
  const Tensor y = Virtual(tensors_[*operands.begin()].dims, type);
  operations_.push_back({.kind = Operation::kPointwise,
                         .in = operands,
                         .out = y,
                         .mode = mode,
                         .compute = of_type ? type : CUDNN_DATA_FLOAT});
  return y;
}

CudnnGraph::Tensor CudnnGraph::Index(Tensor x, std::int64_t axis) {
  const Tensor y = Virtual(tensors_[x].dims, CUDNN_DATA_INT32);
  operations_.push_back({.kind = Operation::kPointwise,
                         .in = {x},
                         .out = y,
                         .mode = CUDNN_POINTWISE_GEN_INDEX,
                         .compute = CUDNN_DATA_INT32,
                         .axis = axis});
  return y;
}

CudnnGraph::Tensor CudnnGraph::Matmul(Tensor a, Tensor b, cudnnDataType_t type) {
  Dims dims = tensors_[a].dims;
  dims[3] = tensors_[b].dims[3];
  const Tensor y = Virtual(dims, type);
  operations_.push_back({.kind = Operation::kMatmul, .in = {a, b}, .out = y});
  return y;
}

CudnnGraph::Tensor CudnnGraph::Reduce(cudnnReduceTensorOp_t op, Tensor x, const Dims& dims) {
  const Tensor y = Virtual(dims, CUDNN_DATA_FLOAT);
  operations_.push_back({.kind = Operation::kReduce, .in = {x}, .out = y, .reduction = op});
  return y;
}

CudnnGraph::Tensor CudnnGraph::Transpose(Tensor x, cudnnDataType_t type) {
  Dims dims = tensors_[x].dims;
  Dims strides = tensors_[x].strides;
  std::swap(dims[2], dims[3]);
  std::swap(strides[2], strides[3]);
  const Tensor y = Virtual(dims, type);
  tensors_[y].strides = strides;
  operations_.push_back({.kind = Operation::kReshape, .in = {x}, .out = y});
  return y;
}

void CudnnGraph::Output(Tensor x, std::int64_t uid, const Dims& strides, cudnnDataType_t type) {
  TensorSpec& spec = tensors_[x];
  spec.uid = uid;
  spec.strides = strides;
  spec.type = type;
  spec.is_virtual = false;
}

CudnnDescriptor* CudnnGraph::New(cudnnBackendDescriptorType_t type) {
  plan_.descriptors_.push_back(
      std::make_unique<CudnnDescriptor>(cudnn_, type, plan_.status_.get()));
  return plan_.descriptors_.back().get();
}

void CudnnGraph::MakeTensors() {
  for (const TensorSpec& spec : tensors_) {
    CudnnDescriptor* const made = New(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made->Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &spec.type);
    made->Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, spec.dims.data());
    made->Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, spec.strides.data());
    made->SetInt(CUDNN_ATTR_TENSOR_UNIQUE_ID, spec.uid);
    made->SetInt(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
    made->Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &spec.is_virtual);
    made->Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &spec.is_scalar);
    made->Finalize();
    made_.push_back(made);
  }
}

CudnnDescriptor* CudnnGraph::MakeOperation(const Operation& operation) {
  const auto tensor = [&](std::size_t i) -> const CudnnDescriptor& {
    return *made_[operation.in[i]];
  };
  const CudnnDescriptor& out = *made_[operation.out];
  switch (operation.kind) {
    case Operation::kPointwise: {
      CudnnDescriptor* const mode = New(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
      mode->Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &operation.mode);
      mode->Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &operation.compute);
      if (operation.axis >= 0) mode->SetInt(CUDNN_ATTR_POINTWISE_AXIS, operation.axis);
      mode->Finalize();
      CudnnDescriptor* const made = New(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
      made->SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *mode);
      made->SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensor(0));
      if (operation.in.size() > 1) {
        made->SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensor(1));
      }
      if (operation.in.size() > 2) {
        made->SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, tensor(2));
      }
      made->SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
      made->Finalize();
      return made;
    }
    case Operation::kMatmul: {
      CudnnDescriptor* const mode = New(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
      mode->Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &operation.compute);
      mode->Finalize();
      CudnnDescriptor* const made = New(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
      made->SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, *mode);
      made->SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor(0));
      made->SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensor(1));
      made->SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
      made->Finalize();
      return made;
    }
    case Operation::kReduce: {
      CudnnDescriptor* const mode = New(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
      mode->Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
                &operation.reduction);
      mode->Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &operation.compute);
      mode->Finalize();
      CudnnDescriptor* const made = New(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
      made->SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, *mode);
      made->SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensor(0));
      made->SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, out);
      made->Finalize();
      return made;
    }
    case Operation::kReshape: {
      CudnnDescriptor* const made = New(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
      made->SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensor(0));
      made->SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, out);
      made->Finalize();
      return made;
    }
  }
  return nullptr;
}

Result<CudnnPlan> CudnnGraph::Plan(std::int32_t device) && {
  MakeTensors();
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Operation& operation : operations_) {
    operations.push_back(MakeOperation(operation)->get());
  }
  CudnnDescriptor* const graph = New(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph->Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             static_cast<std::int64_t>(operations.size()), operations.data());
  graph->Finalize();
  CudnnDescriptor* const properties = New(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties->Set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &device);
  properties->Finalize();
  CudnnDescriptor* const heuristics = New(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics->SetDescriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph);
  // Its first answer is the kernel made for this chip.
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristics->Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics->SetDescriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties);
  heuristics->Finalize();
  CudnnDescriptor* const configuration = New(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (!plan_.status_->ok()) return plan_.status_->error();
  std::int64_t found = 0;
  cudnnBackendDescriptor_t first = configuration->get();
  cudnnStatus_t code = cudnn_->GetAttribute(heuristics->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found, &first);
  if (code != CUDNN_STATUS_SUCCESS || found == 0) {
    return CudnnError(*cudnn_, code, "no kernel for this attention");
  }
  CudnnDescriptor* const plan = New(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan->SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configuration);
  plan->SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *properties);
  plan->Finalize();
  if (!plan_.status_->ok()) return plan_.status_->error();
  code = cudnn_->GetAttribute(plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                              CUDNN_TYPE_INT64, 1, nullptr, &plan_.workspace_bytes_);
  if (code != CUDNN_STATUS_SUCCESS) return CudnnError(*cudnn_, code, "workspace size of a plan");
  return std::move(plan_);
}

}  // namespace twinstep
