#include "traces/kineto/chrome_events.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "sim/lower_case.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr double kMostNanoseconds = 9.2e18;
// What lies deeper in a header nobody asks for.
constexpr std::size_t kMostHeaderLevels = 8;

// Whether a value says that there is no number, in the words of any writer.
bool IsNoNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const std::string lower = LowerCase(text);
  return lower == "null" || lower == "nan" || lower == "inf" || lower == "infinity";
}

// The bytes as RapidJSON takes them: what C and C++ print for numbers that are none ("nan", "inf")
// becomes what JSON's extension calls them ("NaN", "Inf").
class JsonBytes {
 public:
  using Ch = char;

  explicit JsonBytes(ByteSource* source) : source_(*source), taken_(source->Tell()) { Advance(); }

  char Peek() const { return current_; }
  char Take() {
    const char c = current_;
    Advance();
    ++taken_;
    return c;
  }
  std::size_t Tell() const { return taken_; }

  char* PutBegin() { return nullptr; }
  void Put(char) {}
  void Flush() {}
  std::size_t PutEnd(char*) { return 0; }

 private:
  void Advance() {
    current_ = source_.Take();
    if (in_string_) {
      in_string_ = is_escaped_ || current_ != '"';
      is_escaped_ = !is_escaped_ && current_ == '\\';
      return;
    }
    switch (current_) {
      case '"':
        in_string_ = true;
        break;
      case 'n':
        // The begin of "nan", or its end; the begin of "null" stays.
        if (before_ == 'a' || source_.Peek() == 'a') current_ = 'N';
        break;
      case 'i':
        // Not the second one of "infinity".
        if (source_.Peek() == 'n' && before_ != 'f') current_ = 'I';
        break;
      default:
        break;
    }
    before_ = current_;
  }

  ByteSource& source_;
  char current_ = '\0', before_ = '\0';  // Outside of strings.
  bool in_string_ = false, is_escaped_ = false;
  std::size_t taken_;
};

// Where the parser stands: in the header, in the list of events, in an event.
class Handler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Handler> {
 public:
  explicit Handler(ChromeEventSink* sink) : sink_(sink) {}

  const std::optional<Error>& error() const { return error_; }
  bool found_events() const { return found_events_; }
  // Whether the events are the file's outermost list, and the last one is complete.
  bool IsBetweenEventsOfBareList() const {
    return in_events_ && header_.empty() && event_depth_ == 0;
  }

  bool Null() { return Scalar("null"); }
  bool Bool(bool b) { return Scalar(b ? "true" : "false"); }
  bool Double(double d) { return Scalar(StrCat(d)); }  // NaN and infinity only.
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) { return Scalar({text, size}); }
  bool String(const char* text, rapidjson::SizeType size, bool) { return Scalar({text, size}); }

  bool Key(const char* text, rapidjson::SizeType size, bool) {
    if (event_depth_ == 1) {
      field_.assign(text, size);
    } else if (event_depth_ == 2) {
      argument_.assign(text, size);
    } else if (event_depth_ == 0) {
      header_.back().key.assign(text, size);
    }
    return true;
  }

  bool StartObject() {
    if (event_depth_ > 0) {
      ++event_depth_;
      return true;
    }
    if (in_events_) {
      event_depth_ = 1;
      event_.Clear();
      event_.index = events_++;
      return true;
    }
    NextElement();
    header_.push_back({});
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    if (event_depth_ > 1) {
      --event_depth_;
      return true;
    }
    if (event_depth_ == 1) {
      event_depth_ = 0;
      return Check(sink_->OnEvent(event_));
    }
    header_.pop_back();
    return true;
  }
  bool StartArray() {
    if (event_depth_ > 0) {
      ++event_depth_;
      return true;
    }
    if (in_events_) return Fail("the list of events holds a list");
    if (header_.empty() || (header_.size() == 1 && header_[0].key == "traceEvents")) {
      in_events_ = found_events_ = true;
      return true;
    }
    NextElement();
    header_.push_back({.is_list = true, .key = {}});
    return true;
  }
  bool EndArray(rapidjson::SizeType) {
    if (event_depth_ > 0) {
      --event_depth_;
    } else if (in_events_) {
      in_events_ = false;
    } else {
      header_.pop_back();
    }
    return true;
  }

 private:
  struct Level {
    bool is_list = false;
    std::int64_t index = -1;  // Of the element that is read, in a list.
    std::string key;
  };

  bool Fail(std::string message) {
    error_ = Error{.message = std::move(message)};
    return false;
  }
  bool Check(const Status& status) {
    if (!status.ok()) error_ = status.error();
    return status.ok();
  }

  void NextElement() {
    if (!header_.empty() && header_.back().is_list) ++header_.back().index;
  }

  bool Scalar(std::string_view text) {
    if (event_depth_ == 1) return Field(text);
    if (event_depth_ == 2) {
      if (field_ == "args") {
        ChromeArgument& argument = event_.AddArgument();
        argument.name = argument_;
        argument.value.assign(text);
      } else if (field_ == "id2") {
        event_.id.assign(text);
      } else if (field_ == "ps" || field_ == "deps") {
        std::int64_t value = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (code != std::errc() || end != text.data() + text.size()) {
          return Fail(StrCat("event ", event_.index, ": '", field_, "' holds ", text));
        }
        (field_ == "ps" ? event_.exact_ps : event_.dependencies).push_back(value);
      }
      return true;
    }
    if (event_depth_ > 2) return true;
    if (in_events_) return Fail(StrCat("the list of events holds ", text.substr(0, 40)));
    if (header_.empty()) return true;
    NextElement();
    if (header_.size() > kMostHeaderLevels) return true;
    path_.clear();
    for (const Level& level : header_) {
      if (!path_.empty()) path_ += '.';
      path_ += level.is_list ? std::to_string(level.index) : level.key;
    }
    return Check(sink_->OnHeader(path_, text));
  }

  bool Field(std::string_view text) {
    if (field_ == "ph") {
      event_.phase.assign(text);
    } else if (field_ == "name") {
      event_.name.assign(text);
    } else if (field_ == "cat") {
      event_.category.assign(text);
    } else if (field_ == "pid") {
      event_.process.assign(text);
    } else if (field_ == "tid") {
      event_.thread.assign(text);
    } else if (field_ == "id") {
      event_.id.assign(text);
    } else if (field_ == "ts") {
      return Time(text, &event_.start_ns);
    } else if (field_ == "dur") {
      return Time(text, &event_.duration_ns);
    }
    return true;
  }

  bool Time(std::string_view text, std::optional<std::int64_t>* time) {
    *time = ParseMicroseconds(text);
    if (time->has_value() || IsNoNumber(text)) return true;
    return Fail(StrCat("event ", event_.index, " has the time '", text.substr(0, 40), "'"));
  }

  ChromeEventSink* sink_;
  std::optional<Error> error_;
  std::vector<Level> header_;
  std::string path_;
  bool in_events_ = false, found_events_ = false;
  int event_depth_ = 0;  // 0: in no event; 1: in its fields; 2: in one of its objects.
  std::size_t events_ = 0;
  std::string field_, argument_;
  ChromeEvent event_;
};

}  // namespace

const std::string* ChromeEvent::Find(std::string_view argument_name) const {
  for (std::size_t i = 0; i < argument_count_; ++i) {
    if (arguments_[i].name == argument_name) return &arguments_[i].value;
  }
  return nullptr;
}

void ChromeEvent::Clear() {
  for (std::string* text : {&phase, &name, &category, &process, &thread, &id}) text->clear();
  start_ns.reset();
  duration_ns.reset();
  exact_ps.clear();
  dependencies.clear();
  argument_count_ = 0;
}

ChromeArgument& ChromeEvent::AddArgument() {
  if (argument_count_ == arguments_.size()) arguments_.emplace_back();
  return arguments_[argument_count_++];
}

std::optional<std::int64_t> ParseMicroseconds(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view rest = text.substr(negative ? 1 : 0);
  if (rest.empty()) return std::nullopt;
  std::int64_t ns = 0;
  int decimals = -1;  // -1: before the point.
  bool round_up = false;
  for (const char c : rest) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
    } else if (c < '0' || c > '9') {
      // An exponent, which exact writers do not use.
      double value = 0;
      const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
      value *= 1000;
      if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
      if (!(std::abs(value) < kMostNanoseconds)) return std::nullopt;
      return std::llround(value);
    } else if (decimals < 3) {
      if (ns > (INT64_MAX - 9) / 10) return std::nullopt;
      ns = ns * 10 + (c - '0');
      if (decimals >= 0) ++decimals;
    } else if (decimals == 3) {
      round_up = c >= '5';
      ++decimals;
    }
  }
  for (int i = std::max(decimals, 0); i < 3; ++i) {
    if (ns > INT64_MAX / 10) return std::nullopt;
    ns *= 10;
  }
  if (round_up) ++ns;
  return negative ? -ns : ns;
}

Status ReadChromeEvents(ByteSource& source, const std::string& name, ChromeEventSink* sink) {
  // A mark of the byte order, which some editors leave.
  if (source.Peek() == '\xEF') {
    for (int i = 0; i < 3 && source.Peek() != '\0'; ++i) source.Take();
  }
  const auto fail = [&name](const auto&... what) {
    return Error{.message = StrCat(name, ": ", what...)};
  };
  Handler handler(sink);
  rapidjson::Reader reader;
  // Iterative: no depth of nesting exhausts the stack.
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseNanAndInfFlag | rapidjson::kParseTrailingCommasFlag;
  JsonBytes bytes(&source);
  const rapidjson::ParseResult parsed = reader.Parse<kFlags>(bytes, handler);
  if (handler.error()) {
    Error error = *handler.error();
    error.message = StrCat(name, ": ", error.message);
    return error;
  }
  if (!source.error().empty()) return fail(source.error());
  const bool ends_early = parsed.IsError() && handler.found_events() && bytes.Peek() == '\0' &&
                          handler.IsBetweenEventsOfBareList();
  if (ends_early) {
    sink->OnUnclosedList();
  } else if (parsed.IsError()) {
    if (parsed.Code() == rapidjson::kParseErrorDocumentEmpty) return fail("is empty");
    return fail("is not JSON: at byte ", parsed.Offset(), ": ",
                rapidjson::GetParseError_En(parsed.Code()));
  }
  if (!handler.found_events()) {
    return fail("is no trace: it has neither traceEvents nor a list of events");
  }
  return Unit{};
}

Status ReadChromeEvents(const std::string& path, ChromeEventSink* sink) {
  Result<ByteSource> source = ByteSource::Open(path);
  if (!source.ok()) return source.error();
  return ReadChromeEvents(source.value(), path, sink);
}

}  // namespace twinstep
