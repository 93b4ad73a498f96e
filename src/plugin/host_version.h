#pragma once

#include "absl/strings/string_view.h"
#include "plugin/arguments.h"

namespace csidelta::plugin {

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
