// How fast a full backup goes to a bucket that is far away, by the memory and the cores that it may
// use: the uploader as it is shipped, before a store that lets the time of a network pass.
//
//   worker_bench [--runs N] [--cores N,N,...] [--mib N,N,...] [--latency-ms N] [--mb-per-second N]
//                [--volume-mib N] [--seconds N] [--journal]
//
// Cores are what the plan is told; the machine has what it has, so compare rows of one run. Each
// row is a process of its own, for the sake of its peak of memory, and ends after so many seconds
// where the volume is not done by then. Of the figures only MB/s depends on the clock.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "incremental/mover/block_uploader.h"
#include "incremental/sources/image_extent_source.h"
#include "repository/repository.h"
#include "tests/bench/distant_store.h"
#include "tests/bench/noise_device.h"
#include "tests/bench/virtual_clock.h"
#include "tests/support/cheap_scrypt.h"

namespace csidelta::bench {
namespace {

constexpr int kUploadsToBucketMax = 32;  // as csi-delta backup has it

struct Words {
  int runs = 3;
  std::vector<int> cores = {2, 8, 64};
  std::vector<int> mib = {96, 224, 512, 1024};
  int latency_ms = 100;
  int mb_per_second = 40;  // of one connection
  int volume_mib = 2048;
  bool journal = false;
};

// What one process came to; passed on as bytes.
struct Row {
  bool is_measured = false;
  char error[200] = {};
  double mb_per_second = 0;
  DistantCounts counts;
  int workers = 0;
  int uploads = 0;
  int64_t pack_bytes = 0;
  int64_t peak_bytes = 0;
};

absl::Status Measure(const Words& words, int cores, int mib, Row& row) {
  DistantStore store({.latency = absl::Milliseconds(words.latency_ms),
                      .upload_bytes_per_second = int64_t{words.mb_per_second} * 1'000'000});
  const VirtualClock clock;
  CallContext ctx;
  ctx.clock = &clock;
  repository::Environment environment;
  environment.scrypt = support::kCheapScrypt;
  ASSIGN_OR_RETURN(const std::unique_ptr<repository::Repository> repository,
                   repository::Repository::Init(ctx, store, "password", environment));
  NoiseDevice device(int64_t{words.volume_mib} << 20);
  incremental::FullScanSource source;
  incremental::UploadOptions options;
  options.audit_one_in = int64_t{1} << 40;  // The transfer is what is timed.
  options.audit_first_chunks = 0;
  options.memory.budget_bytes = int64_t{mib} << 20;
  options.memory.cores = cores;
  options.memory.pack_bytes_max = repository::kPackTargetBytesRemote;
  options.memory.uploads_in_flight_max = kUploadsToBucketMax;
  options.snapshot.hostname = "bench";
  options.snapshot.paths = {"/volume"};
  if (words.journal) {
    options.immutable_identity = "bench";
  }
  const absl::Duration began = ctx.clock->Uptime();
  RETURN_IF_ERROR(
      incremental::UploadBlocks(ctx, *repository, device, source, Random::Real(), options)
          .status());
  row.counts = store.counts();
  row.mb_per_second = static_cast<double>(row.counts.pack_bytes) / 1e6 /
                      absl::ToDoubleSeconds(ctx.clock->Uptime() - began);
  row.peak_bytes = incremental::PeakMemoryBytes();
  ASSIGN_OR_RETURN(const incremental::MemoryPlan plan, [&] {
    incremental::MemoryRequest request = options.memory;
    request.chunk_bytes = repository::DefaultChunkBytes(device.info().size_bytes);
    return incremental::PlanMemory(request);
  }());
  row.workers = plan.workers;
  row.uploads = plan.uploads_in_flight;
  row.pack_bytes = plan.pack_bytes;
  return absl::OkStatus();
}

Row RunApart(const Words& words, int cores, int mib) {
  int ends[2];
  CSIDELTA_CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  CSIDELTA_CHECK(child >= 0);
  Row row;
  if (child == 0) {
    ::close(ends[0]);
    const absl::Status measured = Measure(words, cores, mib, row);
    row.is_measured = measured.ok();
    std::snprintf(row.error, sizeof(row.error), "%s", std::string(measured.message()).c_str());
    _exit(::write(ends[1], &row, sizeof(row)) == ssize_t{sizeof(row)} ? 0 : 1);
  }
  ::close(ends[1]);
  if (::read(ends[0], &row, sizeof(row)) != ssize_t{sizeof(row)}) {
    row = Row();
  }
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return row;
}

bool ReadNumber(const std::string& text, int& number) {
  return absl::SimpleAtoi(text, &number) && number >= 0;
}

bool ReadNumbers(const std::string& text, std::vector<int>& numbers) {
  numbers.clear();
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    numbers.push_back(0);
    if (!ReadNumber(std::string(word), numbers.back()) || numbers.back() == 0) {
      return false;
    }
  }
  return true;
}

bool Parse(const std::vector<std::string>& arguments, Words& words) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--journal") {
      words.journal = true;
      continue;
    }
    if (++i == arguments.size()) {
      return false;
    }
    const std::string& value = arguments[i];
    const bool good = flag == "--cores"           ? ReadNumbers(value, words.cores)
                      : flag == "--mib"           ? ReadNumbers(value, words.mib)
                      : flag == "--runs"          ? ReadNumber(value, words.runs)
                      : flag == "--latency-ms"    ? ReadNumber(value, words.latency_ms)
                      : flag == "--mb-per-second" ? ReadNumber(value, words.mb_per_second)
                      : flag == "--volume-mib"    ? ReadNumber(value, words.volume_mib)
                                                  : false;
    if (!good) {
      return false;
    }
  }
  return words.runs > 0 && words.volume_mib > 0;
}

void Print(int cores, int mib, std::vector<Row> rows) {
  const auto faster = [](const Row& left, const Row& right) {
    return left.mb_per_second < right.mb_per_second;
  };
  std::sort(rows.begin(), rows.end(), faster);
  const Row& row = rows[rows.size() / 2];
  if (!rows.front().is_measured) {
    std::printf("%5d %6d  not measured: %s\n", cores, mib, rows.front().error);
    return;
  }
  std::printf(
      "%5d %6d %6.0f (%.0f-%.0f) %8d %8d %10d %9.1f %7lld %9.0f\n", cores, mib, row.mb_per_second,
      rows.front().mb_per_second, rows.back().mb_per_second, row.workers, row.uploads,
      row.counts.packs_in_flight_max, static_cast<double>(row.pack_bytes) / (1 << 20),
      static_cast<long long>(row.counts.packs), static_cast<double>(row.peak_bytes) / (1 << 20));
}

int Main(const std::vector<std::string>& arguments) {
  Words words;
  if (!Parse(arguments, words)) {
    std::fprintf(stderr, "worker_bench: the flags are at the top of tests/bench/worker.cc\n");
    return 2;
  }
  std::printf("%d ms to the bucket, %d MB/s each connection, %d MiB of noise%s\n", words.latency_ms,
              words.mb_per_second, words.volume_mib, words.journal ? ", with a journal" : "");
  std::printf("%5s %6s %16s %8s %8s %10s %9s %7s %9s\n", "cores", "MiB", "MB/s (min-max)",
              "workers", "uploads", "in flight", "pack MiB", "packs", "peak MiB");
  // Rows take turns.
  std::vector<std::vector<Row>> all(words.cores.size() * words.mib.size());
  for (int run = 0; run < words.runs; ++run) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].push_back(
          RunApart(words, words.cores[i % words.cores.size()], words.mib[i / words.cores.size()]));
    }
  }
  bool measured = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Print(words.cores[i % words.cores.size()], words.mib[i / words.cores.size()], all[i]);
    for (const Row& row : all[i]) {
      measured = measured && row.is_measured;
    }
  }
  return measured ? 0 : 1;
}

}  // namespace
}  // namespace csidelta::bench

int main(int argc, char** argv) {
  return csidelta::bench::Main(std::vector<std::string>(argv + 1, argv + argc));
}
