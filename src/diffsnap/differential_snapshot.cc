#include "diffsnap/differential_snapshot.h"

#include <utility>

namespace csidelta::diffsnap {

ResolvedPair PairOf(const objects::DifferentialSnapshot& object) {
  objects::ResolvedNames resolved = object.resolved();
  return {.scope = {.namespace_name = object.namespace_name(),
                    .uid = object.uid(),
                    .base_handle = std::move(resolved.base_handle),
                    .target_handle = std::move(resolved.target_handle)},
          .volume_handle = std::move(resolved.volume_handle),
          .volume_size_bytes = resolved.volume_size_bytes,
          .parameters = object.parameters(),
          .start_offset = object.start_offset(),
          .secrets_owner = {.class_name = std::move(resolved.class_name),
                            .namespace_name = object.namespace_name(),
                            .snapshot_name = object.target_name()}};
}

}  // namespace csidelta::diffsnap
