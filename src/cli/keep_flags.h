#pragma once

#include <string>
#include <vector>

#include "base/keep_rules.h"
#include "cli/arguments.h"

namespace csidelta::cli {

// --keep-last, --keep-hourly, ..., --keep-within-yearly: the rules of `forget`, which every verb
// that has them calls by the same names. `with_letters`: -l, -H, -d, -w, -m and -y, too, as restic
// has them; on verbs of a cluster -l is kubectl's. The zone is the caller's to set.
void DeclareKeepFlags(ArgumentTable& table, KeepRules& rules, bool with_letters);

// The flags that say `rules`, a word each: "--keep-last=3". Pure.
std::vector<std::string> KeepArguments(const KeepRules& rules);

}  // namespace csidelta::cli
