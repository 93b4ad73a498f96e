#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace csidelta::plugin {

// What the command line says about the host that wrote it.
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

}  // namespace csidelta::plugin
