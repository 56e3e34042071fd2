"""C++ code from protobuf schemas, with the system's protoc.

    load("//third_party/protobuf:proto.bzl", "twinstep_proto_library")

    twinstep_proto_library(
        name = "model_proto",
        srcs = ["model.proto"],
        deps = ["//other:other_proto"],  # of what the schema imports
    )

A C++ rule names it in its deps and includes "model_zoo/model.pb.h"; a schema imports
"model_zoo/model.proto": both paths start at the workspace's root.
"""

_ProtoInfo = provider(
    doc = "Schemas of a library and of all that it imports.",
    fields = {"schemas": "depset of .proto files"},
)

def _proto_gen_impl(ctx):
    schemas = depset(
        ctx.files.srcs,
        transitive = [dep[_ProtoInfo].schemas for dep in ctx.attr.deps],
    )
    headers, sources = [], []
    for schema in ctx.files.srcs:
        stem = schema.basename[:-len(".proto")]
        headers.append(ctx.actions.declare_file(stem + ".pb.h"))
        sources.append(ctx.actions.declare_file(stem + ".pb.cc"))

    arguments = ctx.actions.args()
    arguments.add("-I.")
    arguments.add("-I" + ctx.bin_dir.path)
    arguments.add("--cpp_out=" + ctx.bin_dir.path)
    arguments.add_all(ctx.files.srcs)
    ctx.actions.run(
        executable = "/usr/bin/protoc",
        arguments = [arguments],
        inputs = schemas,
        outputs = headers + sources,
        mnemonic = "Protoc",
        progress_message = "Generating C++ of %s" % ctx.label,
    )
    return [
        DefaultInfo(files = depset(sources)),
        OutputGroupInfo(headers = depset(headers)),
        _ProtoInfo(schemas = schemas),
    ]

_proto_gen = rule(
    implementation = _proto_gen_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".proto"], mandatory = True),
        "deps": attr.label_list(providers = [_ProtoInfo]),
    },
)

def _proto_library_impl(ctx):
    return [
        ctx.attr.cc[CcInfo],
        ctx.attr.cc[DefaultInfo],
        ctx.attr.gen[_ProtoInfo],
    ]

_proto_library = rule(
    implementation = _proto_library_impl,
    attrs = {
        "cc": attr.label(providers = [CcInfo]),
        "gen": attr.label(providers = [_ProtoInfo]),
    },
    provides = [CcInfo, _ProtoInfo],
)

def twinstep_proto_library(name, srcs, deps = [], **kwargs):
    """A library of generated messages.

    Args:
      name: of the library, by convention `..._proto`.
      srcs: .proto files of this package.
      deps: twinstep_proto_library targets that srcs import.
      **kwargs: visibility, testonly, tags.
    """
    inner = {key: value for key, value in kwargs.items() if key != "visibility"}
    gen = name + "_gen"
    _proto_gen(name = gen, srcs = srcs, deps = deps, visibility = ["//visibility:private"], **inner)
    native.filegroup(
        name = name + "_headers",
        srcs = [gen],
        output_group = "headers",
        visibility = ["//visibility:private"],
        **inner
    )
    native.cc_library(
        name = name + "_cc",
        srcs = [gen],
        hdrs = [name + "_headers"],
        visibility = ["//visibility:private"],
        deps = deps + ["//third_party:protobuf"],
        **inner
    )
    _proto_library(name = name, cc = name + "_cc", gen = gen, **kwargs)
