// Options that name what a verb works on (model, cluster, profile), and --set, which changes their
// fields. Several verbs have them.
//
//   groups = {{"What to train", {ModelOption(), SetOption("a field of the model")}}};
//   Result<Model> model = ReadModelOption(options);
//   Status set = ApplySetOptions(options, {{"model", &model.value()}});
//   Status valid = ValidateModel(model.value());           // What was changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/frameworks/framework.pb.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/options/options.h"
#include "sim/result.h"
#include "sim/textproto/set_field.h"

namespace twinstep {

// --model, --cluster, --profile and --framework with their help.
OptionSpec ModelOption();
OptionSpec ClusterOption();
OptionSpec ProfileOption();
OptionSpec FrameworkOption();

// Behind the others.
void AppendOptions(std::vector<OptionSpec> more, std::vector<OptionSpec>* options);

// An Error that names the first of the options that is not given, and the verb's help.
Status CheckRequired(const Options& options, const std::string& verb,
                     const std::vector<const char*>& required);

// What the option names, valid as it is written: errors name file, line and field. The option must
// be given.
Result<Model> ReadModelOption(const Options& options);
Result<Cluster> ReadClusterOption(const Options& options);
// Nothing if --profile is not given.
Result<std::optional<Profile>> ReadProfileOption(const Options& options);

// --cluster and --profile, of which either is given. Without --cluster: the machine that the
// profile was measured on. The profile's measured_on gets the cluster's terms for its GPU
// (sim/cost/measured_gpu.h), so that times of the very GPU carry over as they are, change as --set
// changes its description, and go to another by what the descriptions of both say.
struct MachineOptions {
  Cluster cluster;
  std::optional<Profile> profile;
};
Result<MachineOptions> ReadMachineOptions(const Options& options, const std::string& verb);

// Nothing if --framework is not given.
Result<std::optional<Framework>> ReadFrameworkOption(const Options& options);

// Every --set, applied to the one message that has its field. An Error where one has several
// values: sweeps are expanded before. What was changed is the caller's to validate.
Status ApplySetOptions(const Options& options, const std::vector<NamedMessage>& messages);

}  // namespace twinstep
