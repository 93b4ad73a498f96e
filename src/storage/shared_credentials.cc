#include "storage/shared_credentials.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

void Take(absl::string_view name, std::string value, Credentials& credentials) {
  if (name == "aws_access_key_id") {
    credentials.access_key_id = std::move(value);
  } else if (name == "aws_secret_access_key") {
    credentials.secret_access_key = Secret(std::move(value));
  } else if (name == "aws_session_token") {
    credentials.session_token = Secret(std::move(value));
  }
}

}  // namespace

absl::StatusOr<std::optional<Credentials>> ParseSharedCredentials(absl::string_view text,
                                                                  const std::string& profile) {
  Credentials credentials;
  bool is_ours = false;
  int line_number = 0;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++line_number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (IsCommentOrEmpty(line)) {
      continue;
    }
    if (line.front() == '[') {
      ASSIGN_OR_RETURN(const std::string name, SectionName(line, line_number));
      is_ours = name == profile;
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (!absl::StrContains(line, "=")) {
      return Malformed(line_number);
    }
    if (is_ours) {
      Take(absl::AsciiStrToLower(absl::StripAsciiWhitespace(parts.first)),
           std::string(absl::StripAsciiWhitespace(parts.second)), credentials);
    }
  }
  if (credentials.access_key_id.empty()) {
    return std::nullopt;
  }
  if (credentials.secret_access_key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared credentials: profile \"", profile, "\" has no secret key"));
  }
  return credentials;
}

}  // namespace csidelta::storage
