"""Finds CUDA on this machine, or says what of it is missing.

    load("//third_party/cuda:cuda_repository.bzl", "cuda_repository")

    cuda_repository(name = "local_cuda")

CUDA_HOME (default: /usr/local/cuda) says where to look, CUDA_ARCHITECTURES (default: 80,90a,100)
for which GPUs kernels are compiled; both from the environment or by --repo_env. Never fails: in
@local_cuda//:defs.bzl, HAVE_CUDA says whether all was found, CUDA_MISSING what was not.
"""

_NEEDED = [
    "bin/nvcc",
    "include/cuda_runtime.h",
    "include/cublasLt.h",
    "include/cudnn.h",
    "include/nccl.h",
    "include/nvtx3/nvToolsExt.h",
    "lib64/libcudart_static.a",
]

_BUILD = """
package(default_visibility = ["//visibility:public"])

# One label in place of two thousand.
cc_library(
    name = "headers",
    includes = ["include"],
    textual_hdrs = ["include"],
)

cc_library(
    name = "runtime",
    linkopts = ["{home}/lib64/libcudart_static.a", "-ldl", "-lrt", "-lpthread"],
    deps = [":headers"],
)
"""

_EMPTY_BUILD = """
package(default_visibility = ["//visibility:public"])

[cc_library(
    name = name,
    target_compatible_with = ["@twinstep//third_party:never"],
) for name in ["headers", "runtime"]]
"""

def _cuda_repository_impl(repository_ctx):
    environment = repository_ctx.os.environ
    home = environment.get("CUDA_HOME", "/usr/local/cuda")
    architectures = environment.get("CUDA_ARCHITECTURES", "80,90a,100").split(",")
    missing = [path for path in _NEEDED if not repository_ctx.path(home + "/" + path).exists]
    repository_ctx.file("defs.bzl", "\n".join([
        "HAVE_CUDA = %s" % (not missing),
        "CUDA_HOME = %r" % home,
        "CUDA_MISSING = %r" % (", ".join([home + "/" + path for path in missing])),
        "CUDA_ARCHITECTURES = %r" % architectures,
        "",
    ]), executable = False)
    if missing:
        repository_ctx.file("BUILD", _EMPTY_BUILD, executable = False)
    else:
        repository_ctx.symlink(home + "/include", "include")
        repository_ctx.file("BUILD", _BUILD.format(home = home), executable = False)

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = ["CUDA_HOME", "CUDA_ARCHITECTURES"],
    local = True,
)
