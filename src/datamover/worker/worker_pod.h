#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "datamover/settings.h"
#include "objects/restricted_pod.h"

namespace csidelta::datamover {

// Hosts that no proxy is asked for, as in NO_PROXY: the API server, whose address the kubelet puts
// in, services of the cluster, and the metadata services of clouds, which hand out credentials.
// The chart has the same list for the controller.
inline constexpr char kNotProxied[] =
    "$(KUBERNETES_SERVICE_HOST),.svc,.cluster.local,169.254.169.254,169.254.170.2,169.254.170.23,"
    "fd00:ec2::254,fd00:ec2::23,metadata.google.internal";

// The object to create: `pod` with the settings of workers. `storage_class`: of the volume that it
// is about, which may restrict where workers run. Pure.
objects::Pod MakeWorkerPod(objects::WorkerPodSpec pod, const MoverSettings& settings,
                           absl::string_view storage_class);

// The needs of a worker for a volume of this size: a restore, a check and a deletion sort the
// repository's index; see docs/cli.md "Plan memory and scratch space".

// Chunks of a volume that began small, with a third for those of older backups.
constexpr int64_t ChunksFor(int64_t volume_bytes) {
  constexpr int64_t kChunkBytes = int64_t{512} << 10;
  return (volume_bytes / kChunkBytes + 1) * 4 / 3;
}

// Bytes of scratch space. The index has 48 bytes for each chunk, and twice as much while it is
// sorted; prune has 36 more.
constexpr int64_t ScratchBytesFor(int64_t volume_bytes) {
  constexpr int64_t kBytesOfChunk = 2 * 48 + 36;
  return ChunksFor(volume_bytes) * kBytesOfChunk;
}

// Bytes of memory, as a limit of its container: the program and one reader, the marks of the index,
// and its packs, which may be as short as 8 MiB. A ninth of all is for tables.
constexpr int64_t RestoreMemoryBytesFor(int64_t volume_bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  constexpr int64_t kLeastBytes = 72 * kMiB;
  constexpr int64_t kOutsideBytes = 32 * kMiB;
  constexpr int64_t kPackBytes = 8 * kMiB;
  constexpr int64_t kBytesOfPack = 5;
  constexpr int64_t kChunksPerByte = 4;
  const int64_t index_bytes =
      ChunksFor(volume_bytes) / kChunksPerByte + volume_bytes / kPackBytes * 4 / 3 * kBytesOfPack;
  return (kLeastBytes + index_bytes) / 8 * 9 + kOutsideBytes;
}

}  // namespace csidelta::datamover
