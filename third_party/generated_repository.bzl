"""A repository whose files are written in the WORKSPACE file, in place of one to be downloaded."""

def _generated_repository_impl(repository_ctx):
    for path, content in repository_ctx.attr.files.items():
        repository_ctx.file(path, content, executable = False)

generated_repository = repository_rule(
    implementation = _generated_repository_impl,
    attrs = {"files": attr.string_dict(mandatory = True, doc = "path -> content")},
    local = True,
)
