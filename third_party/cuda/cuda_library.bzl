"""C++ libraries with CUDA kernels.

    load("//third_party/cuda:cuda_library.bzl", "cuda_library")

    cuda_library(
        name = "norm",
        srcs = ["norm.cu"],
        hdrs = ["norm.h"],  # Plain C++: what launches the kernels.
        deps = [":launch"],
    )

nvcc compiles each source for every architecture of @local_cuda; C++ rules depend on the library as
on any other. Where CUDA is missing the library is incompatible: what depends on it is left out.
"""

load("@local_cuda//:defs.bzl", "CUDA_ARCHITECTURES", "CUDA_HOME", "HAVE_CUDA")

def _code_flags():
    flags = []
    for architecture in CUDA_ARCHITECTURES:
        flags.append("-gencode=arch=compute_%s,code=sm_%s" % (architecture, architecture))

    # For GPUs yet to come: what is not bound to one chip, to be compiled by the driver.
    if not CUDA_ARCHITECTURES[-1].endswith("a"):
        flags.append("-gencode=arch=compute_%s,code=compute_%s" %
                     (CUDA_ARCHITECTURES[-1], CUDA_ARCHITECTURES[-1]))
    return flags

def _cuda_archive_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    inputs = depset(
        ctx.files.srcs + ctx.files.hdrs,
        transitive = [context.headers for context in contexts],
    )
    system_includes = depset(
        transitive = [context.system_includes for context in contexts] +
                     [context.includes for context in contexts],
    )
    environment = {"PATH": "/usr/bin:/bin"}
    objects = []
    for source in ctx.files.srcs:
        stem = source.basename[:-len(".cu")]
        out = ctx.actions.declare_file("_objects/%s/%s.o" % (ctx.label.name, stem))
        arguments = ctx.actions.args()
        arguments.add_all(["-c", "-O3", "-std=c++20", "-compress-mode=size", "-Xcompiler=-fPIC,-Wall,-Wextra"])
        arguments.add_all(["-Werror=all-warnings", "--expt-relaxed-constexpr", "-I."])
        arguments.add_all(_code_flags())
        arguments.add("-I" + ctx.bin_dir.path)
        arguments.add_all(system_includes, before_each = "-isystem")
        arguments.add_all(ctx.attr.copts)
        arguments.add(source)
        arguments.add("-o", out)
        ctx.actions.run(
            executable = CUDA_HOME + "/bin/nvcc",
            arguments = [arguments],
            inputs = depset([source], transitive = [inputs]),
            outputs = [out],
            env = environment,
            mnemonic = "Nvcc",
            progress_message = "Compiling %s" % source.short_path,
        )
        objects.append(out)
    archive = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add("rcsD", archive)
    arguments.add_all(objects)
    ctx.actions.run(
        executable = "/usr/bin/ar",
        arguments = [arguments],
        inputs = objects,
        outputs = [archive],
        mnemonic = "CudaArchive",
    )
    return [DefaultInfo(files = depset([archive]))]

_cuda_archive = rule(
    implementation = _cuda_archive_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], copts = []):
    """A library of kernels.

    Args:
      name: of the library.
      srcs: .cu files.
      hdrs: headers of this package; others come with deps.
      deps: C++ or CUDA libraries whose headers srcs include.
      copts: further flags of nvcc.
    """
    incompatible = [] if HAVE_CUDA else ["//third_party:never"]
    all_deps = deps + ["//third_party/cuda:runtime"]
    _cuda_archive(
        name = name + "_archive",
        srcs = srcs,
        hdrs = hdrs,
        deps = all_deps,
        copts = copts,
        target_compatible_with = incompatible,
        visibility = ["//visibility:private"],
    )
    native.cc_import(
        name = name + "_import",
        static_library = name + "_archive",
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        hdrs = hdrs,
        target_compatible_with = incompatible,
        deps = [name + "_import"] + all_deps,
    )
