#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/secret.h"

namespace csidelta::cli {

// std::getenv(), or its replacement in a test.
using GetVariable = std::function<const char*(const char* name)>;

// The value of the variable; "" if it is not set.
std::string Variable(const GetVariable& get, const char* name);

inline constexpr char kWaysToGiveAPassword[] =
    "--password-file, --password-command or RESTIC_PASSWORD (_FILE, _COMMAND)";

// The source of a password: the first of command, file and text that is set, else the terminal.
struct PasswordSource {
  std::string command;  // run without a shell; its output is the password
  std::string file;
  Secret text;
};

// `flags` if it names a source, else RESTIC_PASSWORD_COMMAND, RESTIC_PASSWORD_FILE and
// RESTIC_PASSWORD. INVALID_ARGUMENT if both a file and a command are given, by flags or by
// variables.
absl::StatusOr<PasswordSource> ChoosePasswordSource(PasswordSource flags, const GetVariable& get);

// Reads the password. Blanks and line breaks around the text of a file or command are ignored.
// `what` is for the prompt: "password for REPO". `twice`: a new password, to be typed twice.
// INVALID_ARGUMENT if it is empty, or if there is neither a source nor a terminal; the message then
// names the `ways` to give one. NOT_FOUND and PERMISSION_DENIED for files; FAILED_PRECONDITION if
// the command fails.
absl::StatusOr<Secret> ReadPassword(const CallContext& ctx, const PasswordSource& source,
                                    absl::string_view what, bool twice,
                                    absl::string_view ways = kWaysToGiveAPassword);

// Asks "QUESTION [y/N] " on the terminal and reads a line there. True if the answer is yes.
absl::StatusOr<bool> Confirm(const CallContext& ctx, absl::string_view question);

// The text of a small file, such as a password or an address, without blanks and line breaks around
// it. UTF-16 behind a byte order mark becomes UTF-8, as in restic.
absl::StatusOr<std::string> ReadSmallText(const std::string& path);
// The same for a bundle of certificates; a system may trust hundreds.
absl::StatusOr<std::string> ReadCertificates(const std::string& path);

}  // namespace csidelta::cli
