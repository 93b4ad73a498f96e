#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/secret.h"

namespace csidelta::cli {

// std::getenv(), or a test's.
using GetVariable = std::function<const char*(const char* name)>;

// The variable's text; none for one that is not set.
std::string Variable(const GetVariable& get, const char* name);

inline constexpr char kWaysToGiveAPassword[] =
    "--password-file, --password-command or RESTIC_PASSWORD (_FILE, _COMMAND)";

// Where a password comes from: the first of command, file, text that is set, else the terminal.
struct PasswordSource {
  std::string command;  // run without a shell; its output counts
  std::string file;
  Secret text;
};

// `flags` where it names something, else RESTIC_PASSWORD_COMMAND, RESTIC_PASSWORD_FILE and
// RESTIC_PASSWORD. INVALID_ARGUMENT when both a file and a command are given in one place.
absl::StatusOr<PasswordSource> ChoosePasswordSource(PasswordSource flags, const GetVariable& get);

// Reads it; blanks and line breaks around the text of a file or command do not count. `what` is for
// the prompt: "password for REPO". `twice`: a new password, which is asked for again.
// INVALID_ARGUMENT when it is empty, or when there is no source and no terminal, which names the
// `ways` to give one; NOT_FOUND, PERMISSION_DENIED for files; FAILED_PRECONDITION when the command
// fails.
absl::StatusOr<Secret> ReadPassword(const CallContext& ctx, const PasswordSource& source,
                                    absl::string_view what, bool twice,
                                    absl::string_view ways = kWaysToGiveAPassword);

// Asks on the terminal, "QUESTION [y/N] ", and reads a line there: whether it is a yes.
absl::StatusOr<bool> Confirm(const CallContext& ctx, absl::string_view question);

// A small file's text without blanks and line breaks around it: a password, a location.
absl::StatusOr<std::string> ReadSmallText(const std::string& path);
// The same of a bundle of certificates, of which a system may trust hundreds.
absl::StatusOr<std::string> ReadCertificates(const std::string& path);

}  // namespace csidelta::cli
