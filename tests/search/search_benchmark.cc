// quick scratch
#include <sys/resource.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/search/parallel.h"
#include "sim/search/plan_search.h"
using namespace twinstep;
static double Cpu(){ rusage u; getrusage(RUSAGE_SELF,&u); return double(u.ru_utime.tv_sec+u.ru_stime.tv_sec)+1e-6*double(u.ru_utime.tv_usec+u.ru_stime.tv_usec);}
int main(int argc, char** argv) {
  SimulateInput in;
  in.model = FindModel(argc>1?argv[1]:"llama-175b").value();
  in.cluster = FindCluster("h800").value();
  in.rules.kuaishou = true;
  in.solve_offload = true;
  long gpus = argc>2?atol(argv[2]):256;
  in.plan.set_sequence_length(argc>3?atol(argv[3]):8192);
  in.plan.set_global_batch(argc>4?atol(argv[4]):256);
  double gap = argc>5?atof(argv[5]):0.001;
  if (argc>6) in.gpu_memory_budget_bytes = 65000ll<<20;
  in.gpu_memory_capacity_bytes = in.cluster.gpu().memory_bytes() - in.cluster.gpu().runtime_overhead_bytes();
  in.host_memory_budget_bytes = in.cluster.node().host().memory_bytes();
  PlanAxes axes; axes.recompute = {RECOMPUTE_NONE, RECOMPUTE_BALANCED, RECOMPUTE_FULL};
  double t0=Cpu();
  PlanSpace space = EnumeratePlans(in, axes, gpus).value();
  std::printf("plans %zu  enumerate %.1f ms\n", space.plans.size(), 1e3*(Cpu()-t0)); t0=Cpu();
  for (auto& [r,e]: space.invalid) std::printf("  %s %ld\n", r.c_str(), long(e.plans));
  { PlanEstimator est(in, 2); auto p = space.plans; (void)est.Estimate(&p); std::printf("estimate with parts %.1f ms\n", 1e3*(Cpu()-t0)); t0=Cpu();
    for (int i=0;i<10;++i) {p = space.plans; (void)est.Estimate(&p);} std::printf("estimate alone %.2f ms\n", 1e2*(Cpu()-t0)); t0=Cpu(); }
  PlanSearch s(in, {.gap=gap,.keep=5,.threads=2});
  auto r = s.Run(space, nullptr);
  if (!r.ok()) { std::printf("%s\n", r.error().message.c_str()); return 1; }
  std::printf("search cpu %.2f s replays %ld gap %g\n", Cpu()-t0, long(r.value().replays), r.value().certified_gap);
  for (auto& p : r.value().plans) if (p.fate != Fate::kInfeasible && p.fate != Fate::kBounded)
    std::printf("%-60s cf %.3f bound %.3f time %.3f fate %d gpu %.2f host %.1f\n", ShortName(p.plan).c_str(), p.estimate.closed_form.total_s(), 1e-12*double(p.estimate.bound_ps), p.iteration_ps? 1e-12*double(*p.iteration_ps):0., int(p.fate), p.memory? double(p.memory->peak_gpu_bytes)/(1<<30):0.,p.memory? double(p.memory->peak_host_bytes)/(1<<30):0.);
}
