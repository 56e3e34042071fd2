#include "tests/cost/test_clusters.h"

#include <google/protobuf/text_format.h>

#include <cstdlib>

namespace twinstep {
namespace {

Cluster Parse(const char* text) {
  Cluster cluster;
  if (!google::protobuf::TextFormat::ParseFromString(text, &cluster)) std::abort();
  return cluster;
}

}  // namespace

Cluster H200Node() {
  return Parse(R"(
    name: "h200" nodes: 1
    gpu {
      bf16_flops_per_s: 989e12 fp32_flops_per_s: 67e12 fp64_flops_per_s: 67e12
      memory_bytes_per_s: 4.8e12 memory_bytes: 150754820096
      streaming_multiprocessors: 132 kernel_launch_s: 2.5e-6 l2_bytes: 52428800
      gemm_max_efficiency: 0.86 gemm_tile_m: 128 gemm_tile_n: 256 gemm_half_k: 300
      memory_bound { max_efficiency: 0.85 half_work: 4e6 }
      attention_forward { max_efficiency: 0.667 half_work: 195 }
      attention_backward { max_efficiency: 0.531 half_work: 320 }
      attention_half_head_dim: 256
    }
    node {
      gpus: 8
      pcie { h2d_bytes_per_s: 55.1e9 d2h_bytes_per_s: 55.3e9 duplex_bytes_per_s: 90.2e9
             latency_s: 3e-6 }
      nvlink { bytes_per_s: 450e9 latency_s: 17.5e-6 step_latency_s: 1.7e-6
               collective_efficiency: 0.815 p2p_efficiency: 0.83
               collective_pass_bytes_per_s: 510e9
               nvls_efficiency: 0.685 nvls_latency_s: 70e-6 }
      host { memory_bytes: 2199023255552 dram_bytes_per_s: 90e9 cores: 32 }
    })");
}

Cluster A100Node() {
  return Parse(R"(
    name: "a100" nodes: 128
    gpu {
      bf16_flops_per_s: 312e12 fp32_flops_per_s: 19.5e12 fp64_flops_per_s: 19.5e12
      memory_bytes_per_s: 2.039e12 memory_bytes: 85899345920
      streaming_multiprocessors: 108 kernel_launch_s: 3e-6 l2_bytes: 41943040
      gemm_max_efficiency: 0.90 gemm_tile_m: 128 gemm_tile_n: 256 gemm_half_k: 128
      memory_bound { max_efficiency: 0.85 half_work: 2e6 }
      attention_forward { max_efficiency: 0.68 half_work: 150 }
      attention_backward { max_efficiency: 0.58 half_work: 200 }
    }
    node {
      gpus: 8
      pcie { h2d_bytes_per_s: 25e9 d2h_bytes_per_s: 25e9 latency_s: 5e-6 gpus_per_uplink: 2
             uplink_bytes_per_s: 25e9 }
      nvlink { bytes_per_s: 300e9 latency_s: 31e-6 step_latency_s: 3.1e-6
               collective_efficiency: 0.76 p2p_efficiency: 0.85
               collective_pass_bytes_per_s: 295e9 }
      host { memory_bytes: 1099511627776 dram_bytes_per_s: 300e9 cores: 128 }
      nic { count: 8 bytes_per_s: 25e9 latency_s: 20e-6 step_latency_s: 8e-6
            collective_efficiency: 0.9 p2p_efficiency: 0.9 }
    })");
}

Cluster H800Cluster() {
  Cluster cluster = H200Node();
  cluster.set_name("h800");
  cluster.set_nodes(32);
  Gpu& gpu = *cluster.mutable_gpu();
  gpu.set_memory_bytes_per_s(3.35e12);
  gpu.set_memory_bytes(85899345920);
  Node& node = *cluster.mutable_node();
  node.mutable_nvlink()->set_bytes_per_s(200e9);
  Nic& nic = *node.mutable_nic();
  nic.set_count(8);
  nic.set_bytes_per_s(12.5e9);
  nic.set_latency_s(20e-6);
  nic.set_step_latency_s(8e-6);
  nic.set_collective_efficiency(0.9);
  nic.set_p2p_efficiency(0.9);
  return cluster;
}

Cluster Rtx3090Node() {
  return Parse(R"(
    name: "rtx3090" nodes: 1
    gpu {
      bf16_flops_per_s: 142e12 fp32_flops_per_s: 35.6e12 fp64_flops_per_s: 0.56e12
      memory_bytes_per_s: 936e9 streaming_multiprocessors: 82 kernel_launch_s: 3e-6
      gemm_max_efficiency: 0.5 gemm_tile_m: 128 gemm_tile_n: 128 gemm_half_k: 64
    }
    node {
      gpus: 4
      pcie { h2d_bytes_per_s: 12e9 d2h_bytes_per_s: 12e9 latency_s: 8e-6 peer_via_host: true }
      nvlink { latency_s: 30e-6 step_latency_s: 5e-6 collective_efficiency: 0.5 }
      host { memory_bytes: 412316860416 dram_bytes_per_s: 80e9 cores: 24 }
    })");
}

Cluster PlainCluster() {
  return Parse(R"(
    name: "plain" nodes: 4
    gpu { bf16_flops_per_s: 100e12 fp32_flops_per_s: 10e12 fp64_flops_per_s: 5e12
          memory_bytes_per_s: 1e12 }
    node {
      gpus: 4
      pcie { h2d_bytes_per_s: 20e9 d2h_bytes_per_s: 10e9 }
      nvlink { bytes_per_s: 100e9 }
      host { dram_bytes_per_s: 56e9 adam_params_per_s: 1e9 }
      nic { count: 4 bytes_per_s: 5e9 }
    })");
}

}  // namespace twinstep
