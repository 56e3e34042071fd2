"""Fuzzers: a source with LLVMFuzzerTestOneInput, linked with libFuzzer.

    load("//third_party/fuzzing:fuzzer.bzl", "twinstep_fuzzer")

They are built by `bazel build --config=fuzz` alone (clang 19: setup.sh --fuzz); any other build
leaves them out.
"""

def twinstep_fuzzer(name, srcs, deps = [], **kwargs):
    """A libFuzzer binary, run as `bazel-bin/PACKAGE/NAME CORPUS_DIRECTORY`.

    Args:
      name: of the binary.
      srcs: C++ files, one of which defines LLVMFuzzerTestOneInput and none main.
      deps: C++ libraries.
      **kwargs: of cc_binary.
    """
    native.cc_binary(
        name = name,
        srcs = srcs,
        linkopts = ["-fsanitize=fuzzer"],
        testonly = True,
        deps = deps,
        target_compatible_with = select({
            "//third_party:fuzz_on": [],
            "//conditions:default": ["//third_party:never"],
        }),
        **kwargs
    )
