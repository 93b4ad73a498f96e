#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "storage/azure_credentials.h"
#include "storage/bucket_object_store.h"

namespace csidelta::storage {

struct AzureOptions {
  AzureAccount account = {};
  std::string container = {};
  std::string prefix = {};       // "", or what stands before every key, with "/" behind
  std::string access_tier = {};  // of data packs alone: "Hot", "Cool", "Cold"; "": the account's
  int64_t block_bytes = int64_t{64} << 20;  // An object that is larger is put in blocks.
  int page_objects_max = 3000;  // of a listing; a page of longer names is below kXmlBytesMax
};

// INVALID_ARGUMENT for a tier or a size of blocks that cannot be used; writes the tier as the
// service does. Pure.
absl::Status CheckAzureOptions(AzureOptions& options);

// Objects as block blobs in a container of Azure Blob Storage, over its REST interface: no library
// of Microsoft's is packaged for the platform. One Put Blob for an object of at most a block, else
// Put Block for each and one Put Block List, which makes the object visible. Names of blocks are
// this attempt's own, so that two writers never mix theirs; uncommitted blocks show in no listing,
// and the service drops them after a week. The server verifies the CRC-64 of every body, and a
// server that refuses or overlooks that header its MD5; a mismatch is DATA_LOSS.
//
// Snapshots, soft-deleted blobs and earlier versions are not shown. A blob that an immutability
// policy, a lease or snapshots keep is not deleted: IsRetained(). For credentials, clock and hosts
// see BucketObjectStore. Sources: learn.microsoft.com/rest/api/storageservices, put-blob,
// put-block-list, list-blobs, blob-service-error-codes, authorize-with-shared-key.
//
// Borrows `http`, `credentials`, `random` and `meter`, which is also told of requests for blocks.
class AzureObjectStore : public BucketObjectStore {
 public:
  AzureObjectStore(AzureOptions options, net::HttpClient& http, AzureCredentials& credentials,
                   Random& random, StoreMeter& meter);

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override;
  absl::StatusOr<std::vector<absl::Status>> DeleteBatch(
      const CallContext& ctx, absl::Span<const std::string> keys) override;
  DeletionLimits deletion_limits() const override {
    return takes_batches() ? DeletionLimits{.keys_per_request_max = 256}
                           : BucketObjectStore::deletion_limits();
  }
  std::string Describe() const override;

 private:
  absl::StatusOr<SignedRequest> Sign(const CallContext& ctx, const BucketCall& call,
                                     absl::Time time) override;
  Refusal ReadRefusal(const net::HttpResponse& response) const override;
  absl::Status ReadFailure(const net::HttpResponse& response,
                           const BucketCall& call) const override;
  BucketCall PageCall(const PageRequest& page) const override;
  absl::StatusOr<ListPage> ParsePage(const std::string& body) const override;
  absl::Status PutBlocks(const CallContext& ctx, BucketCall& call);
  absl::Status PutBody(const CallContext& ctx, BucketCall call);

  const AzureOptions options_;
  AzureCredentials& credentials_;
  Random& random_;
  StoreMeter& meter_;
  std::atomic<bool> crc_is_unknown_ = false;  // by the answer of this server
};

// What the Shared Key scheme signs of a request whose headers are complete. Pure.
std::string AzureStringToSign(const net::HttpRequest& request, absl::string_view account);

// An EnumerationResults. INVALID_ARGUMENT also for a page that does not say whether it is the last.
// Pure.
absl::StatusOr<ListPage> ParseBlobList(absl::string_view xml);

// The parts of an answer to a Blob Batch, each with its Content-ID, "" where it has none.
// INVALID_ARGUMENT for what is no such answer, or not the whole of it. Pure.
absl::StatusOr<std::vector<std::pair<std::string, net::HttpResponse>>> ParseBatchAnswer(
    const net::HttpResponse& answer);

}  // namespace csidelta::storage
