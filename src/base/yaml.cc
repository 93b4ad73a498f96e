#include "base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta {
namespace {

absl::Status ErrorAt(const YAML::Mark& mark, absl::string_view problem) {
  if (mark.is_null()) {
    return absl::InvalidArgumentError(absl::StrCat("YAML: ", problem));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("YAML line ", mark.line + 1, " column ", mark.column + 1, ": ", problem));
}

std::string TooManyValues() { return absl::StrCat("more than ", kYamlNodesMax, " values"); }

// Whether `text` holds only UTF-8, and no NUL, on which the library ends a stream.
bool IsUtf8Text(absl::string_view text) {
  const Json value = std::string(text);
  const absl::StatusOr<Json> copy = ParseJson(DumpJson(value));  // Replaces what is not UTF-8.
  return text.find('\0') == absl::string_view::npos && copy.ok() && *copy == value;
}

// Counts the values of a document as they are written, before the library builds a tree that takes
// several hundred bytes for each.
class Counter : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Count(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Count(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    Count(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Count(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Count(mark);
  }
  void OnMapEnd() override {}

 private:
  void Count(const YAML::Mark& mark) {
    if (++nodes_ > kYamlNodesMax) {
      throw YAML::ParserException(mark, TooManyValues());
    }
  }

  int nodes_ = 0;
};

// Copies a document out of the library, counting what aliases expand to.
class Converter {
 public:
  absl::StatusOr<Json> Convert(const YAML::Node& node, int depth) {
    if (depth > kYamlDepthMax) {
      return ErrorAt(node.Mark(), absl::StrCat("nested deeper than ", kYamlDepthMax));
    }
    if (++nodes_ > kYamlNodesMax) {
      return ErrorAt(node.Mark(), TooManyValues());
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return Json(node.Scalar());
      case YAML::NodeType::Sequence:
        return ConvertSequence(node, depth);
      case YAML::NodeType::Map:
        return ConvertMap(node, depth);
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
    }
    return Json(nullptr);
  }

 private:
  absl::StatusOr<Json> ConvertSequence(const YAML::Node& node, int depth) {
    Json list = Json::array();
    for (const YAML::Node& element : node) {
      ASSIGN_OR_RETURN(Json value, Convert(element, depth + 1));
      list.push_back(std::move(value));
    }
    return list;
  }

  absl::StatusOr<Json> ConvertMap(const YAML::Node& node, int depth) {
    Json map = Json::object();
    Json merged = Json::object();
    for (const auto& member : node) {
      if (!member.first.IsScalar()) {
        return ErrorAt(member.first.Mark(), "a key that is not plain text");
      }
      const std::string& key = member.first.Scalar();
      ASSIGN_OR_RETURN(Json value, Convert(member.second, depth + 1));
      if (key == "<<" && member.first.Tag() == "?") {
        RETURN_IF_ERROR(Merge(std::move(value), member.first.Mark(), merged));
      } else if (!map.emplace(key, std::move(value)).second) {
        return ErrorAt(
            member.first.Mark(),
            absl::StrCat("key \"", absl::CHexEscape(key.substr(0, 64)), "\" stands twice"));
      }
    }
    map.insert(merged.begin(), merged.end());  // What stands in the map itself wins.
    return map;
  }

  static absl::Status Merge(Json value, const YAML::Mark& mark, Json& merged) {
    Json maps = value.is_array() ? std::move(value) : Json::array({std::move(value)});
    for (const Json& map : maps) {
      if (!map.is_object()) {
        return ErrorAt(mark, "a merge of something that is no map");
      }
      merged.insert(map.begin(), map.end());  // Of several, the first one wins.
    }
    return absl::OkStatus();
  }

  int nodes_ = 0;
};

// Plain where no reader takes it for anything but a string.
std::string YamlString(const std::string& text) {
  const bool is_plain =
      !text.empty() && absl::ascii_isalpha(static_cast<unsigned char>(text.front())) &&
      std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("._/-", c);
      });
  const std::string lower = absl::AsciiStrToLower(text);
  for (const absl::string_view word :
       {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    if (lower == word) {
      return DumpJson(text);
    }
  }
  return is_plain ? text : DumpJson(text);
}

void AppendYaml(const Json& value, int indent, std::string& out);

// The value behind "key:" or "-": on the same line where it fits there.
void AppendYamlValue(const Json& value, int indent, std::string& out) {
  if (value.is_structured() && !value.empty()) {
    out.push_back('\n');
    AppendYaml(value, indent, out);
  } else {
    absl::StrAppend(&out, " ",
                    value.is_string() ? YamlString(value.get<std::string>()) : DumpJson(value),
                    "\n");
  }
}

void AppendYaml(const Json& value, int indent, std::string& out) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      absl::StrAppend(&out, margin, YamlString(key), ":");
      AppendYamlValue(member, indent + 2, out);
    }
  } else {
    for (const Json& element : value) {
      absl::StrAppend(&out, margin, "-");
      if (element.is_object() && !element.empty()) {
        // The first member stands behind the dash.
        std::string body;
        AppendYaml(element, indent + 2, body);
        absl::StrAppend(&out, " ", body.substr(margin.size() + 2));
      } else {
        AppendYamlValue(element, indent + 2, out);
      }
    }
  }
}

}  // namespace

absl::StatusOr<Json> ParseYaml(absl::string_view text) {
  if (text.size() > kYamlBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("YAML: more than ", kYamlBytesMax, " bytes"));
  }
  if (!IsUtf8Text(text)) {
    return absl::InvalidArgumentError("YAML: not UTF-8 text");
  }
  try {
    std::istringstream stream{std::string(text)};
    Counter counter;
    YAML::Parser(stream).HandleNextDocument(counter);
    return Converter().Convert(YAML::Load(std::string(text)), 0);
  } catch (const YAML::Exception& error) {
    return ErrorAt(error.mark, error.msg);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("YAML: ", error.what()));
  }
}

std::string ToYaml(const Json& value) {
  std::string out;
  if (value.is_structured() && !value.empty()) {
    AppendYaml(value, 0, out);
  } else {
    AppendYamlValue(value, 0, out);
    out.erase(0, 1);
  }
  return out;
}

}  // namespace csidelta
