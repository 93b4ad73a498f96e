#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace csidelta::plugin {

// The host's properties that its command line reveals.
enum class ArgumentForm {
  kEmpty,             // no argument at all
  kLevelAndFeatures,  // "--log-level L [--features F]", as Velero up to 1.14 writes it; an admin
                      // may too
  kServerArguments,   // something that only Velero 1.15 and newer passes on: the server's own flags
};

// The flags that matter to us; every other one is ignored, because the host passes on whatever its
// own command line holds.
struct Arguments {
  ArgumentForm form = ArgumentForm::kEmpty;
  std::string log_level = "info";
  std::vector<std::string> features;
  double client_qps = 100;
  int client_burst = 100;
  std::string kubeconfig;      // "": not given
  std::string kubecontext;     // "": not given
  std::string namespace_name;  // "": not given

  bool HasFeature(absl::string_view feature) const;
};

// Reads everything after argv[0]; "--flag value", "--flag=value", "-flag=value" and, for the
// namespace, "-n value" and "-nvalue". The last one of a repeated flag counts. Never fails: a
// number that is none leaves the default. Pure.
Arguments ParseArguments(const std::vector<std::string>& arguments);

// What the host certainly takes. A kind that it does not know, or a name that it has itself, makes
// its server exit, so every doubt is a no.
struct HostKinds {
  bool v2 = false;            // BackupItemActionV2, RestoreItemActionV2: Velero 1.11 and newer
  bool item_block = false;    // ItemBlockAction: Velero 1.15 and newer
  bool placeholders = false;  // asks a plugin for names that newer ones bring along: 1.12 and 1.13

  bool operator==(const HostKinds&) const = default;
};

// Answers: which kinds may be listed? By what Velero itself shows: the form of our command line,
// and the release of the gRPC library in `user_agent` ("grpc-go/1.63.2"), which each Velero minor
// pins. `declared_version` ("1.11", "v1.18.1"; "" when not set) is an administrator's word and
// decides alone, but for placeholders: the version may be older than the server. Pure.
HostKinds DetectHostKinds(ArgumentForm form, absl::string_view user_agent,
                          absl::string_view declared_version);

}  // namespace csidelta::plugin
