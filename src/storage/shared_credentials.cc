#include "storage/shared_credentials.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace csidelta::storage {
namespace {

absl::Status Malformed(int line_number) {
  return absl::InvalidArgumentError(
      absl::StrCat("shared credentials: line ", line_number, " is malformed"));
}

bool IsCommentOrEmpty(absl::string_view line) {
  return line.empty() || line.front() == '#' || line.front() == ';';
}

// As the Go SDK does: a comment begins behind white space.
absl::string_view WithoutComment(absl::string_view value) {
  for (const char* begin : {" #", " ;", "\t#", "\t;"}) {
    value = value.substr(0, value.find(begin));
  }
  return absl::StripAsciiWhitespace(value);
}

// "[name]" or, as the file of settings has it, "[profile name]".
absl::StatusOr<std::string> SectionName(absl::string_view line, int line_number) {
  const auto end = line.find(']');
  if (end == absl::string_view::npos) {
    return Malformed(line_number);
  }
  absl::string_view name = absl::StripAsciiWhitespace(line.substr(1, end - 1));
  if (absl::StartsWith(name, "profile ")) {
    name = absl::StripLeadingAsciiWhitespace(name.substr(8));
  }
  return std::string(name);
}

// Ways to keys that only the SDKs know. Of a role the profile's own keys are but a means.
constexpr absl::string_view kRole = "role_arn";
constexpr absl::string_view kForeignWays[] = {kRole, "sso_session", "sso_account_id",
                                              "credential_process", "credential_source"};

// The settings of one profile that matter, as they are read.
struct Settings {
  Credentials credentials;
  std::string foreign_way;  // "" or one of kForeignWays
};

void Take(absl::string_view name, std::string value, Settings& settings) {
  if (name == "aws_access_key_id") {
    settings.credentials.access_key_id = std::move(value);
  } else if (name == "aws_secret_access_key") {
    settings.credentials.secret_access_key = Secret(std::move(value));
  } else if (name == "aws_session_token") {
    settings.credentials.session_token = Secret(std::move(value));
  } else if (settings.foreign_way != kRole && absl::c_linear_search(kForeignWays, name)) {
    settings.foreign_way = std::string(name);
  }
}

absl::StatusOr<std::optional<Credentials>> Judge(Settings settings, const std::string& profile) {
  const bool has_key = !settings.credentials.access_key_id.empty();
  if (settings.foreign_way == kRole || (!has_key && !settings.foreign_way.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shared credentials: profile \"", profile, "\" gets its keys by ", settings.foreign_way,
        ", which is not supported; give it keys of its own, or "
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
  }
  if (!has_key) {
    return std::nullopt;
  }
  if (settings.credentials.secret_access_key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared credentials: profile \"", profile, "\" has no secret key"));
  }
  return std::move(settings.credentials);
}

}  // namespace

absl::StatusOr<SharedProfile> ParseSharedCredentials(absl::string_view text,
                                                     const std::string& profile) {
  SharedProfile found;
  Settings settings;
  bool is_managed = false;
  int line_number = 0;
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");  // editors of Windows
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++line_number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (IsCommentOrEmpty(line)) {
      continue;
    }
    if (line.front() == '[') {
      ASSIGN_OR_RETURN(const std::string name, SectionName(line, line_number));
      is_managed = name == profile;
      found.is_there = found.is_there || is_managed;
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (!absl::StrContains(line, "=")) {
      return Malformed(line_number);
    }
    if (is_managed) {
      Take(absl::AsciiStrToLower(absl::StripAsciiWhitespace(parts.first)),
           std::string(WithoutComment(parts.second)), settings);
    }
  }
  ASSIGN_OR_RETURN(found.credentials, Judge(std::move(settings), profile));
  return found;
}

}  // namespace csidelta::storage
