#include "hw_specs/frameworks/find_framework.h"

#include "sim/graph/find_op.h"
#include "sim/str_cat.h"
#include "sim/textproto/field_rules.h"
#include "sim/textproto/named_texts.h"
#include "sim/textproto/text_file.h"

namespace twinstep {

const std::vector<NamedText>& EmbeddedFrameworks();  // Generated from *.textproto.

namespace {

Status Validate(const Framework& framework, const TextSource& source) {
  FieldErrors errors(framework, source);
  errors.CheckEveryNumber();
  errors.CheckZeroOrRange("dispatch_s", 1e-12, 1);
  errors.CheckZeroOrRange("optimizer_bytes_per_param", 1e-6, 1e3);
  errors.CheckZeroOrRange("buffer_bytes", 1, 0x1p40);
  errors.CheckZeroOrRange("optimizer_segment_bytes_per_param", 1e-6, 1e3);
  errors.CheckZeroOrRange("host_adam_bytes_per_param", 1, 1e4);
  errors.CheckZeroOrRange("host_threads", 1, 1e4);
  errors.CheckZeroOrRange("host_adam_share", 1e-3, 1);
  for (const char* copies : {"parameter_copies", "gradient_copies", "activation_copies"}) {
    errors.CheckZeroOrRange(StrCat(copies, ".bytes"), 1e-3, 1e3);
  }
  for (int i = 0; i < framework.kernels_size(); ++i) {
    const std::string field = StrCat("kernels[", i, "]");
    const OperationKernels& kernels = framework.kernels(i);
    if (!FindOp(kernels.op())) {
      errors.Add(field + ".op", StrCat("no operation '", kernels.op(), "'"));
    }
    const auto check = [&](const char* factor, double value, int most) {
      if (value > most) errors.Add(StrCat(field, ".", factor), StrCat("is more than ", most));
    };
    check("traffic", kernels.traffic(), 1000);
    check("launches", kernels.launches(), 1000);
    check("arithmetic", kernels.arithmetic(), 1000);
    check("scratch", kernels.scratch(), 1000);
    check("kept_input", kernels.kept_input(), 1);
    for (const double bytes : kernels.output_bytes()) check("output_bytes", bytes, 1000);
  }
  return errors.status();
}

// So many files may build on each other.
constexpr int kMostBases = 4;

Result<Framework> FindWithBases(const std::string& name_or_path, int bases_left,
                                std::vector<std::string>* files) {
  const Result<FoundText> found = FindText(EmbeddedFrameworks(), "framework", name_or_path);
  if (!found.ok()) return found.error();
  Result<ParsedText<Framework>> parsed =
      ParseText<Framework>(found.value().text, found.value().source);
  if (!parsed.ok()) return parsed.error();
  if (files != nullptr && !found.value().is_embedded) files->push_back(found.value().source);
  const Framework& framework = parsed.value().message;
  if (const Status valid = Validate(framework, parsed.value().source); !valid.ok()) {
    return valid.error();
  }
  if (framework.base().empty()) return framework;
  if (bases_left == 0) {
    return Error{.message = StrCat("framework '", framework.name(), "': more than ", kMostBases,
                                   " bases build on each other (base)")};
  }
  Result<Framework> base =
      FindWithBases(SeenFrom(found.value().source, framework.base()), bases_left - 1, files);
  if (!base.ok()) {
    return Error{.message = StrCat(parsed.value().source.Locate(Framework::descriptor(), "base"),
                                   ": base: ", base.error().message)};
  }
  base.value().MergeFrom(framework);  // Of kernels of one operation the later ones count.
  return base;
}

}  // namespace

std::vector<std::string> ListFrameworks() {
  std::vector<std::string> names;
  for (const NamedText& framework : EmbeddedFrameworks()) names.emplace_back(framework.name);
  return names;
}

Result<Framework> FindFramework(const std::string& name_or_path, std::vector<std::string>* files) {
  return FindWithBases(name_or_path, kMostBases, files);
}

}  // namespace twinstep
