// What a listing costs by itself: asks the cluster for the changed blocks of a volume snapshot, as
// a backup does, and counts the extents.
//
//   list_blocks csi-metadata|differential-snapshot NAMESPACE/NAME BASE SIZE
//
// with the cluster in KUBECONFIG; BASE "" lists what is allocated
//
// Prints extents, bytes, the seconds of clock that the listing took, and the peak of memory.

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "csi/expose/audience_tokens.h"
#include "incremental/sources/csi_metadata_source.h"
#include "incremental/sources/differential_request.h"
#include "k8s/config.h"
#include "k8s/rest_client.h"

namespace csidelta {
namespace {

// The kernel's own account of the largest resident set.
int64_t PeakMemoryKib() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

std::unique_ptr<incremental::ChangedBlockSource> MakeSource(absl::string_view name,
                                                            k8s::ApiClient& api,
                                                            csi::AudienceTokens& tokens) {
  if (name == "differential-snapshot") {
    return std::make_unique<incremental::DifferentialRequestSource>(
        api, tokens, Random::Real(), incremental::DifferentialRequestOptions{});
  }
  return std::make_unique<incremental::CsiMetadataSource>(api, tokens, Random::Real(),
                                                          incremental::CsiMetadataOptions{});
}

absl::Status List(absl::string_view source_name, const std::string& target, const std::string& base,
                  int64_t size_bytes) {
  const CallContext ctx;
  const std::unique_ptr<k8s::ApiClient> api =
      k8s::MakeClient(k8s::ClientSettings::FromEnvironment());
  csi::AudienceTokens tokens(*api, {});
  const std::unique_ptr<incremental::ChangedBlockSource> source =
      MakeSource(source_name, *api, tokens);
  int64_t extents = 0;
  int64_t bytes = 0;
  const absl::Duration begin = ctx.clock->Uptime();
  RETURN_IF_ERROR(source->ListExtents(ctx, {base, target, size_bytes},
                                      [&](const incremental::ListedExtent& listed) {
                                        ++extents;
                                        bytes += listed.extent.length_bytes;
                                        return absl::OkStatus();
                                      }));
  std::printf("extents=%ld bytes=%ld seconds=%.4f peak_kib=%ld\n", extents, bytes,
              absl::ToDoubleSeconds(ctx.clock->Uptime() - begin), PeakMemoryKib());
  return absl::OkStatus();
}

}  // namespace
}  // namespace csidelta

int main(int argc, char** argv) {
  int64_t size_bytes = 0;
  if (argc != 5 || !absl::SimpleAtoi(argv[4], &size_bytes)) {
    std::fprintf(stderr, "usage: list_blocks SOURCE NAMESPACE/NAME BASE SIZE\n");
    return 2;
  }
  const absl::Status status = csidelta::List(argv[1], argv[2], argv[3], size_bytes);
  if (!status.ok()) {
    std::fprintf(stderr, "list_blocks: %s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
