#include "storage/credentials_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "storage/shared_credentials.h"

namespace csidelta::storage {
namespace {

using Kind = Location::Kind;

constexpr int64_t kJsonValuesMax = 1000;  // An external account has a few dozen.

struct FileForm {
  Kind kind;
  absl::string_view cloud;
  absl::string_view form;
};
constexpr FileForm kFileForms[] = {
    {Kind::kS3, "AWS", "sections such as [default]"},
    {Kind::kAzure, "Azure", "lines such as AZURE_CLIENT_ID=VALUE"},
    {Kind::kGoogle, "Google", "a JSON object with a type, such as service_account"}};

// The name of a line NAME=VALUE; "" of any other line.
absl::string_view NameOf(absl::string_view line) {
  absl::ConsumePrefix(&line, "export ");
  return absl::StrContains(line, "=") ? absl::StripAsciiWhitespace(line.substr(0, line.find('=')))
                                      : absl::string_view();
}

// By the first line that says so. kDirectory: of none that is known.
Kind SeemingKind(absl::string_view text) {
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (absl::StartsWith(line, "{")) {
      return Kind::kGoogle;
    }
    if (absl::StartsWith(line, "[")) {
      return Kind::kS3;
    }
    if (absl::StartsWith(NameOf(line), "AZURE_")) {
      return Kind::kAzure;
    }
  }
  return Kind::kDirectory;
}

absl::Status WrongForm(Kind wanted, Kind seeming) {
  std::string message;
  for (const FileForm& form : kFileForms) {
    if (form.kind == wanted) {
      absl::StrAppend(&message, "not a credentials file of ", form.cloud, ", which has ",
                      form.form);
    }
  }
  for (const FileForm& form : kFileForms) {
    if (form.kind == seeming && seeming != wanted) {
      absl::StrAppend(&message, "; it seems to be one of ", form.cloud);
    }
  }
  return absl::InvalidArgumentError(message);
}

absl::Status CheckAzureFile(absl::string_view text, const std::string& key_line) {
  bool has_lines = false;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    const absl::string_view name = NameOf(absl::StripAsciiWhitespace(raw));
    if (!key_line.empty() && name == key_line) {
      return absl::OkStatus();
    }
    has_lines = has_lines || !name.empty();
  }
  if (!has_lines) {
    return WrongForm(Kind::kAzure, Kind::kAzure);
  }
  return key_line.empty()
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(
                   "has no line ", key_line, "=, which is to have the account's key; add it"));
}

}  // namespace

absl::Status CheckCredentialsFile(Kind kind, absl::string_view text, const std::string& part) {
  const Kind seeming = SeemingKind(absl::StripPrefix(text, "\xef\xbb\xbf"));
  if (seeming != Kind::kDirectory && seeming != kind) {
    return WrongForm(kind, seeming);
  }
  if (kind == Kind::kS3) {
    return ParseSharedCredentials(text, part).status();
  }
  if (kind == Kind::kAzure) {
    return CheckAzureFile(text, part);
  }
  const absl::StatusOr<Json> json = ParseJsonObject(text, kJsonValuesMax);
  return json.ok() && !GetString(*json, {"type"}).empty() ? absl::OkStatus()
                                                          : WrongForm(kind, kind);
}

}  // namespace csidelta::storage
