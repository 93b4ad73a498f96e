#pragma once

#include <string>
#include <vector>

#include "base/keep_rules.h"
#include "cli/arguments.h"

namespace csidelta::cli {

// --keep-last, --keep-hourly, ..., --keep-within-yearly: the rules of `forget`, with the same names
// in every verb. `with_letters`: also -l, -H, -d, -w, -m and -y, as in restic; in verbs on a
// cluster -l is kubectl's. The caller sets the zone.
void DeclareKeepFlags(ArgumentTable& table, KeepRules& rules, bool with_letters);

// The arguments that declare `rules`: "--keep-last=3". Pure.
std::vector<std::string> KeepArguments(const KeepRules& rules);

}  // namespace csidelta::cli
