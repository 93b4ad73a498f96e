#pragma once

#include "diffsnap/pair_table.h"
#include "objects/differential_snapshot.h"

namespace csidelta::diffsnap {

// What is served for an object that is a Success. Pure.
ResolvedPair PairOf(const objects::DifferentialSnapshot& object);

}  // namespace csidelta::diffsnap
