#include "sim/options/options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <map>

#include "sim/report/text_table.h"
#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"

namespace twinstep {
namespace {

namespace po = boost::program_options;

std::vector<std::string> AllNames(const std::vector<OptionGroup>& groups) {
  std::vector<std::string> names;
  for (const OptionGroup& group : groups) {
    for (const OptionSpec& option : group.options) names.push_back(StrCat("--", option.name));
  }
  return names;
}

po::options_description Describe(const std::vector<OptionGroup>& groups) {
  po::options_description all;
  for (const OptionGroup& group : groups) {
    for (const OptionSpec& option : group.options) {
      if (option.argument == nullptr) {
        all.add_options()(option.name, option.help);
      } else {
        all.add_options()(option.name, po::value<std::string>(), option.help);
      }
    }
  }
  return all;
}

const OptionSpec& SpecOf(const std::vector<OptionGroup>& groups, std::string_view name) {
  for (const OptionGroup& group : groups) {
    for (const OptionSpec& option : group.options) {
      if (option.name == name) return option;
    }
  }
  static const OptionSpec kSwitch{"", nullptr, ""};
  return kSwitch;
}

}  // namespace

OptionSpec Reads(OptionSpec option) {
  option.file = FileUse::kRead;
  return option;
}

OptionSpec Writes(OptionSpec option) {
  option.file = FileUse::kWritten;
  return option;
}

OptionSpec MakesFolder(OptionSpec option) {
  option.file = FileUse::kFolderMade;
  return option;
}

std::optional<std::string> Options::Get(std::string_view name) const {
  for (const Option& option : given_) {
    if (option.name == name) return option.value;
  }
  return std::nullopt;
}

Options Options::Without(std::size_t index) const {
  Options result = *this;
  result.given_.erase(result.given_.begin() + static_cast<std::ptrdiff_t>(index));
  return result;
}

Options Options::With(std::size_t index, std::string value) const {
  Options result = *this;
  result.given_[index].value = std::move(value);
  return result;
}

Result<Options> ParseOptions(const std::vector<OptionGroup>& groups, const std::string& verb,
                             const std::vector<std::string>& arguments) {
  std::vector<Option> given;
  std::map<std::string, int> times;
  try {
    const po::options_description description = Describe(groups);
    const auto parsed =
        po::command_line_parser(arguments)
            .options(description)
            .style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing &
                   ~po::command_line_style::allow_short)
            .run();
    for (const po::option& option : parsed.options) {
      if (option.position_key >= 0 || option.string_key.empty()) {
        const std::string& text = option.original_tokens.empty() ? "" : option.original_tokens[0];
        return Error{.message = StrCat("unexpected argument '", text,
                                       "': options begin with -- (twinstep ", verb, " --help)")};
      }
      const OptionSpec& spec = SpecOf(groups, option.string_key);
      if (++times[option.string_key] > 1 && !spec.repeats) {
        return Error{.message = StrCat("--", option.string_key, " is given twice")};
      }
      const std::string value = option.value.empty() ? "" : option.value[0];
      if (value.empty() && spec.argument != nullptr) {
        return Error{.message = StrCat("--", option.string_key, ": the value is empty")};
      }
      if (value == "-" && spec.file == FileUse::kWritten &&
          !std::string_view(spec.argument).ends_with("|-")) {
        return Error{.message = StrCat("--", option.string_key,
                                       " needs a file: it cannot go to standard output")};
      }
      given.push_back({option.string_key, value, spec.file});
    }
  } catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    return Error{.message = StrCat("unknown option ", name, DidYouMean(name, AllNames(groups)))};
  } catch (const po::error& error) {
    return Error{.message = error.what()};
  }
  return Options(std::move(given));
}

std::string OptionsHelp(const std::vector<OptionGroup>& groups) {
  constexpr std::size_t kHelpColumn = 32;
  std::string text;
  for (const OptionGroup& group : groups) {
    text += StrCat("\n", group.title, "\n");
    for (const OptionSpec& option : group.options) {
      const std::string label = StrCat("  --", option.name, option.argument == nullptr ? "" : " ",
                                       option.argument == nullptr ? "" : option.argument);
      text += Paragraph(label, kHelpColumn, option.help);
    }
  }
  return text;
}

}  // namespace twinstep
