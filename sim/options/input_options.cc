#include "sim/options/input_options.h"

#include <string>
#include <utility>
#include <vector>

#include "hw_specs/find_cluster.h"
#include "hw_specs/frameworks/find_framework.h"
#include "hw_specs/read_profile.h"
#include "hw_specs/validate_cluster.h"
#include "model_zoo/find_model.h"
#include "model_zoo/validate_model.h"
#include "sim/cost/measured_gpu.h"
#include "sim/options/output_files.h"
#include "sim/options/read_option.h"
#include "sim/str_cat.h"
#include "sim/textproto/text_file.h"

namespace twinstep {

OptionSpec ModelOption() {
  return Reads(
      {"model", "NAME|FILE",
       "a name of `twinstep list models`, or a text file like those of model_zoo/ (required)"});
}

OptionSpec ClusterOption() {
  return Reads(
      {"cluster", "NAME|FILE",
       "a name of `twinstep list clusters`, or a text file like those of hw_specs/, whose base: "
       "\"NAME\" may name the cluster that it changes (default: what --profile was measured on)"});
}

OptionSpec ProfileOption() {
  return Reads(
      {"profile", "FILE", "measured costs, which take precedence over the cluster's rooflines"});
}

OptionSpec FrameworkOption() {
  return Reads({"framework", "NAME|FILE",
                "what training software adds, a name of `twinstep list frameworks` or a text file "
                "like those of hw_specs/frameworks/ (default: every operation is one fused "
                "kernel)"});
}

void AppendOptions(std::vector<OptionSpec> more, std::vector<OptionSpec>* options) {
  options->insert(options->end(), more.begin(), more.end());
}

Status CheckRequired(const Options& options, const std::string& verb,
                     const std::vector<const char*>& required) {
  for (const char* name : required) {
    if (!options.Has(name)) {
      return Error{.message = StrCat("--", name, " is missing (twinstep ", verb, " --help)")};
    }
  }
  return Unit{};
}

Result<Model> ReadModelOption(const Options& options) {
  Result<ParsedText<Model>> model = ReadModel(*options.Get("model"));
  if (!model.ok()) return model.error();
  const Status valid = ValidateModel(model.value().message, model.value().source);
  if (!valid.ok()) return valid.error();
  return std::move(model).value().message;
}

Result<Cluster> ReadClusterOption(const Options& options) {
  std::vector<std::string> files;
  Result<ParsedText<Cluster>> cluster = ReadCluster(*options.Get("cluster"), &files);
  if (!cluster.ok()) return cluster.error();
  for (const Status& status : {ValidateCluster(cluster.value().message, cluster.value().source),
                               CheckOutputFiles(options, files)}) {
    if (!status.ok()) return status.error();
  }
  return std::move(cluster).value().message;
}

Result<std::optional<Profile>> ReadProfileOption(const Options& options) {
  const auto path = options.Get("profile");
  if (!path) return std::optional<Profile>();
  Result<Profile> profile = ReadProfile(*path);
  if (!profile.ok()) return profile.error();
  return std::optional<Profile>(std::move(profile).value());
}

Result<MachineOptions> ReadMachineOptions(const Options& options, const std::string& verb) {
  MachineOptions machine;
  Result<std::optional<Profile>> profile = ReadProfileOption(options);
  if (!profile.ok()) return profile.error();
  machine.profile = std::move(profile).value();
  if (options.Has("cluster")) {
    Result<Cluster> cluster = ReadClusterOption(options);
    if (!cluster.ok()) return cluster.error();
    machine.cluster = std::move(cluster).value();
    if (machine.profile && machine.profile->has_measured_on()) {
      const bool on_threads = machine.cluster.node().workers().threads() > 0;
      if (on_threads != (machine.profile->measured_on().node().workers().threads() > 0)) {
        return OptionError(
            "profile", StrCat("was measured on ", on_threads ? "GPUs" : "worker threads", ", and ",
                              machine.cluster.name(), " has ",
                              on_threads ? "worker threads" : "GPUs", " (--cluster)"));
      }
      DescribeInTermsOf(machine.cluster, machine.profile->mutable_measured_on());
    }
    return machine;
  }
  if (!machine.profile) {
    return Error{.message = StrCat("--cluster is missing, or a --profile, which says what it was "
                                   "measured on",
                                   verb == "validate" ? "; --profile auto measures first" : "",
                                   " (twinstep ", verb, " --help)")};
  }
  if (!machine.profile->has_measured_on()) {
    return OptionError("cluster",
                       "is missing, and the profile does not say what it was measured on");
  }
  DescribeByDataSheet(machine.profile->mutable_measured_on());
  machine.cluster = machine.profile->measured_on();
  return machine;
}

Result<std::optional<Framework>> ReadFrameworkOption(const Options& options) {
  const auto name = options.Get("framework");
  if (!name) return std::optional<Framework>();
  std::vector<std::string> files;
  Result<Framework> framework = FindFramework(*name, &files);
  if (!framework.ok()) return OptionError("framework", framework.error().message);
  if (const Status free = CheckOutputFiles(options, files); !free.ok()) return free.error();
  return std::optional<Framework>(std::move(framework).value());
}

Status ApplySetOptions(const Options& options, const std::vector<NamedMessage>& messages) {
  for (const Option& option : options.given()) {
    if (option.name != "set") continue;
    const Result<FieldValues> field = ParseFieldValues(option.value);
    if (!field.ok()) return OptionError("set", field.error().message);
    if (field.value().values.size() > 1) {
      return OptionError("set", StrCat(option.value, ": only `twinstep simulate` takes several"));
    }
    const Status set = SetFieldOfOne(messages, field.value().path, field.value().values.front());
    if (!set.ok()) return OptionError("set", set.error().message);
  }
  return Unit{};
}

}  // namespace twinstep
