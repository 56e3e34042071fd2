"""Text files that a binary carries, so that it finds them wherever it runs."""

def embedded_texts(name, function, srcs, **kwargs):
    """A library with `const std::vector<NamedText>& function();` in namespace twinstep.

    Args:
      name: of the library.
      function: its function's name; the caller declares it.
      srcs: text files; a file's name without suffix is the name it is found by.
      **kwargs: visibility, testonly, tags.
    """
    generated = name + "_gen"
    native.genrule(
        name = generated,
        srcs = srcs,
        outs = [name + ".cc"],
        cmd = "python3 $(location //sim/textproto:embed_texts.py) %s $(SRCS) > $@" % function,
        tools = ["//sim/textproto:embed_texts.py"],
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = [generated],
        deps = ["//sim/textproto:named_texts"],
        **kwargs
    )
