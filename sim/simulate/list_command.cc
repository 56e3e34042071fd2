#include "sim/simulate/list_command.h"

#include <algorithm>

#include "hw_specs/find_cluster.h"
#include "hw_specs/frameworks/find_framework.h"
#include "model_zoo/find_model.h"
#include "sim/evaluate/suites/find_suite.h"
#include "sim/report/echo_text.h"
#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"

namespace twinstep {
namespace {

constexpr const char* kHelp =
    "twinstep list: what this binary knows by name\n\n"
    "  twinstep list models       for --model\n"
    "  twinstep list clusters     for --cluster\n"
    "  twinstep list frameworks   for --framework\n"
    "  twinstep list suites       for twinstep evaluate\n\n"
    "One name a line, its first word. Any other is a text file away: see model_zoo/model.proto,\n"
    "hw_specs/cluster.proto, hw_specs/frameworks/framework.proto and "
    "sim/evaluate/suites/suite.proto.\n";

std::string Describe(const Suite& suite) {
  return StrCat(suite.description(), " (", suite.rows_size(), " rows)");
}

std::string Describe(const Framework& framework) { return framework.description(); }

template <typename Find>
ExitCode ListAll(const std::vector<std::string>& names, Find find, std::ostream& out,
                 std::ostream& err) {
  std::size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  for (const std::string& name : names) {
    const auto found = find(name);
    if (!found.ok()) {
      err << "twinstep list: " << found.error().message << "\n";
      return ExitCode::kInternal;  // A file of our own that does not pass our own rules.
    }
    out << name << std::string(width - name.size() + 2, ' ') << Describe(found.value()) << "\n";
  }
  return ExitCode::kDone;
}

}  // namespace

ExitCode RunListCommand(const std::vector<std::string>& arguments, std::ostream& out,
                        std::ostream& err) {
  if (arguments.size() == 1 && arguments[0] == "--help") {
    out << kHelp;
    return ExitCode::kDone;
  }
  if (arguments.size() != 1) {
    err << "twinstep list: one argument: models, clusters, frameworks or suites\n";
    return ExitCode::kBadInput;
  }
  if (arguments[0] == "models") return ListAll(ListModels(), FindModel, out, err);
  if (arguments[0] == "suites") return ListAll(ListSuites(), FindSuite, out, err);
  if (arguments[0] == "frameworks") {
    const auto find = [](const std::string& name) { return FindFramework(name); };
    return ListAll(ListFrameworks(), find, out, err);
  }
  if (arguments[0] == "clusters") return ListAll(ListClusters(), FindCluster, out, err);
  err << "twinstep list: '" << arguments[0]
      << "' is none of models, clusters, frameworks and suites"
      << DidYouMean(arguments[0], {"models", "clusters", "frameworks", "suites"}) << "\n";
  return ExitCode::kBadInput;
}

}  // namespace twinstep
