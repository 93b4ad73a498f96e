#include "conformance/snapshot_fixtures.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "conformance/volume_file.h"

namespace csidelta::conformance {
namespace {

constexpr int kQuietGeneration = 3;
constexpr int kGrownGeneration = 4;
constexpr int kCloneGeneration = 5;
constexpr int64_t kForeignBytes = kVolumeBytesMin;
// Not "space" alone, which a namespace has, too.
constexpr const char* kNoSpaceTexts[] = {"no space", "enough space", "insufficient space",
                                         "out of space"};

// By what is said of it: the code is what is tested.
bool TellsOfNoSpace(const absl::Status& status) {
  const std::string message = absl::AsciiStrToLower(status.message());
  return absl::c_any_of(kNoSpaceTexts,
                        [&](const char* text) { return absl::StrContains(message, text); });
}

class FixtureMaker {
 public:
  FixtureMaker(const CallContext& ctx, DriverHarness& harness, const FixturePlan& plan,
               const CheckResultSink& sink)
      : ctx_(ctx), harness_(harness), plan_(plan), sink_(sink) {}

  absl::StatusOr<SnapshotFixtures> Make();

 private:
  // The volume's own size, which every driver can make.
  int64_t foreign_bytes() const { return std::max(kForeignBytes, plan_.volume_bytes); }

  absl::Status Play(int generation, const std::string& device);
  absl::Status Do(const WorkloadPosition& place, const Step& step, VolumeFile& volume);

  // Snapshots the volume, and judges what the snapshot holds.
  absl::Status AddGeneration(int generation, const std::string& device);

  // Copies a volume made of the snapshot. `like`: an image of its size.
  absl::Status Restore(const std::string& like, SnapshotFixture& fixture);
  absl::Status MakeClone();
  absl::Status Grow(const std::string& device);

  // Snapshots a volume, and judges what the driver says of it. Its id.
  absl::StatusOr<std::string> Take(absl::string_view what, const std::string& volume_id,
                                   int64_t volume_bytes);
  // Attaches a volume that must have so many bytes. Its device.
  absl::StatusOr<std::string> Attach(absl::string_view what, const std::string& volume_id,
                                     int64_t bytes_min);
  // Whether the driver refuses to cut off a snapshot.
  absl::Status AskForLess();

  const CallContext& ctx_;
  DriverHarness& harness_;
  const FixturePlan plan_;
  const CheckResultSink& sink_;
  // Of the volume; a device may be larger, or not grow though the driver says so.
  int64_t wished_bytes_ = plan_.volume_bytes;
  SnapshotFixtures fixtures_;
  std::vector<Extent> discarded_;
};

absl::StatusOr<SnapshotFixtures> FixtureMaker::Make() {
  ASSIGN_OR_RETURN(fixtures_.volume, harness_.MakeVolume(ctx_, plan_.volume_bytes, ""));
  ASSIGN_OR_RETURN(const std::string device,
                   Attach("the volume", fixtures_.volume.id, plan_.volume_bytes));
  RETURN_IF_ERROR(AddGeneration(0, device));
  for (const int generation : {1, 2}) {
    RETURN_IF_ERROR(Play(generation, device));
    RETURN_IF_ERROR(AddGeneration(generation, device));
  }
  RETURN_IF_ERROR(AddGeneration(kQuietGeneration, device));
  RETURN_IF_ERROR(MakeClone());
  ASSIGN_OR_RETURN(const VolumeInfo foreign, harness_.MakeVolume(ctx_, foreign_bytes(), ""));
  ASSIGN_OR_RETURN(fixtures_.foreign_snapshot_id,
                   Take("snapshot of another volume", foreign.id, foreign_bytes()));
  RETURN_IF_ERROR(Grow(device));
  RETURN_IF_ERROR(AskForLess());
  return std::move(fixtures_);
}

absl::Status FixtureMaker::Play(int generation, const std::string& device) {
  ASSIGN_OR_RETURN(VolumeFile volume, VolumeFile::Open(device, /*writable=*/true));
  if (volume.size_bytes() < kVolumeBytesMin) {
    return absl::FailedPreconditionError(
        absl::StrCat("the volume has ", volume.size_bytes(), " bytes; give --volume-size"));
  }
  const WorkloadPosition place{.seed = plan_.seed, .generation = generation};
  for (const Step& step : StepsOf(place, volume.size_bytes())) {
    RETURN_IF_ERROR(ctx_.Check());
    RETURN_IF_ERROR(Do(place, step, volume));
  }
  return volume.Flush();
}

absl::Status FixtureMaker::Do(const WorkloadPosition& place, const Step& step, VolumeFile& volume) {
  const Extent& extent = step.extent;
  if (step.kind == StepKind::kWrite) {
    std::vector<uint8_t> bytes(static_cast<std::size_t>(extent.length_bytes));
    FillPattern(place, extent.offset_bytes, absl::MakeSpan(bytes));
    return volume.Write(extent.offset_bytes, bytes);
  }
  if (step.kind == StepKind::kZero) {
    return volume.Zero(extent);
  }
  const absl::Status status = volume.Discard(extent);
  if (absl::IsUnimplemented(status)) {
    return volume.Zero(extent);
  }
  discarded_.push_back(extent);  // It may read as anything from now on.
  return status;
}

absl::Status FixtureMaker::AddGeneration(int generation, const std::string& device) {
  const std::string written = harness_.ImagePath(absl::StrCat("written-", generation));
  RETURN_IF_ERROR(CopyToImage(ctx_, device, written));
  SnapshotFixture fixture{.image = harness_.ImagePath(absl::StrCat("restored-", generation))};
  const std::string what = absl::StrCat("snapshot ", generation);
  ASSIGN_OR_RETURN(fixture.snapshot_id, Take(what, fixtures_.volume.id, wished_bytes_));
  RETURN_IF_ERROR(Restore(written, fixture));
  ASSIGN_OR_RETURN(std::vector<Extent> wrong, DifferingExtents(ctx_, written, fixture.image));
  wrong = SubtractExtents(wrong, MergeExtents(discarded_));
  sink_(MakeCheckResult(what, "content",
                        wrong.empty()
                            ? ""
                            : absl::StrCat(TotalBytes(wrong), " bytes are others, the first at ",
                                           Describe(wrong.front()))));
  fixtures_.generations.push_back(std::move(fixture));
  return absl::OkStatus();
}

absl::Status FixtureMaker::Restore(const std::string& like, SnapshotFixture& fixture) {
  ASSIGN_OR_RETURN(const VolumeFile source, VolumeFile::Open(like, /*writable=*/false));
  fixture.size_bytes = source.size_bytes();
  const int64_t restored_bytes = std::max(fixture.size_bytes, wished_bytes_);
  ASSIGN_OR_RETURN(const VolumeInfo restored,
                   harness_.MakeVolume(ctx_, restored_bytes, fixture.snapshot_id));
  ASSIGN_OR_RETURN(const std::string device,
                   Attach("a volume of a snapshot", restored.id, restored_bytes));
  RETURN_IF_ERROR(CopyToImage(ctx_, device, fixture.image));
  return harness_.Drop(ctx_, restored.id);
}

absl::Status FixtureMaker::MakeClone() {
  const SnapshotFixture& source = fixtures_.generations[2];
  ASSIGN_OR_RETURN(
      const VolumeInfo clone,
      harness_.MakeVolume(ctx_, std::max(source.size_bytes, wished_bytes_), source.snapshot_id));
  ASSIGN_OR_RETURN(const std::string device, harness_.Attach(ctx_, clone.id));
  {
    const WorkloadPosition place{.seed = plan_.seed, .generation = kCloneGeneration};
    ASSIGN_OR_RETURN(VolumeFile volume, VolumeFile::Open(device, /*writable=*/true));
    const int64_t middle = volume.size_bytes() / 2 / kStepBytes * kStepBytes;
    RETURN_IF_ERROR(Do(place, {StepKind::kWrite, {middle, kStepBytes}}, volume));
    RETURN_IF_ERROR(volume.Flush());
  }
  fixtures_.clone.image = harness_.ImagePath("clone");
  fixtures_.clone.size_bytes = source.size_bytes;
  RETURN_IF_ERROR(CopyToImage(ctx_, device, fixtures_.clone.image));
  ASSIGN_OR_RETURN(fixtures_.clone.snapshot_id,
                   Take("snapshot of the clone", clone.id, source.size_bytes));
  return harness_.Detach(ctx_, clone.id);
}

absl::StatusOr<std::string> FixtureMaker::Take(absl::string_view what, const std::string& volume_id,
                                               int64_t volume_bytes) {
  const absl::StatusOr<SnapshotInfo> taken = harness_.MakeSnapshot(ctx_, volume_id);
  if (!taken.ok()) {
    if (TellsOfNoSpace(taken.status())) {
      sink_(MakeCheckResult(
          what, "no-space",
          absl::IsResourceExhausted(taken.status()) ? "" : taken.status().ToString()));
    }
    return taken.status();
  }
  const bool is_whole = taken->size_bytes == 0 || taken->size_bytes >= volume_bytes;
  sink_(MakeCheckResult(
      what, "snapshot-size",
      is_whole ? "" : absl::StrCat("it says ", taken->size_bytes, " of ", volume_bytes, " bytes")));
  const bool is_unannounced = taken->has_topology && !harness_.info().snapshot_topology;
  sink_(MakeCheckResult(what, "snapshot-topology", is_unannounced ? "it is not announced" : ""));
  return taken->id;
}

absl::StatusOr<std::string> FixtureMaker::Attach(absl::string_view what,
                                                 const std::string& volume_id, int64_t bytes_min) {
  ASSIGN_OR_RETURN(std::string device, harness_.Attach(ctx_, volume_id));
  ASSIGN_OR_RETURN(const VolumeFile volume, VolumeFile::Open(device, /*writable=*/false));
  sink_(MakeCheckResult(
      what, "block-size",
      volume.size_bytes() >= bytes_min
          ? ""
          : absl::StrCat("its device has ", volume.size_bytes(), " of ", bytes_min, " bytes")));
  return device;
}

absl::Status FixtureMaker::AskForLess() {
  constexpr char kWhat[] = "half of snapshot 2";
  const SnapshotFixture& source = fixtures_.generations[2];
  const absl::StatusOr<VolumeInfo> made =
      harness_.MakeVolume(ctx_, source.size_bytes / 2, source.snapshot_id);
  RETURN_IF_ERROR(ctx_.Check());
  if (made.ok()) {
    return Attach(kWhat, made->id, source.size_bytes).status();
  }
  sink_(MakeCheckResult(kWhat, "block-size",
                        absl::IsOutOfRange(made.status()) ? "" : made.status().ToString()));
  return absl::OkStatus();
}

absl::Status FixtureMaker::Grow(const std::string& device) {
  if (!harness_.info().expands) {
    sink_({.verdict = Verdict::kNotApplicable,
           .subject = absl::StrCat("snapshot ", kGrownGeneration),
           .rule = "content",
           .detail = "the driver does not announce EXPAND_VOLUME"});
    return absl::OkStatus();
  }
  wished_bytes_ += plan_.volume_bytes / 2;
  RETURN_IF_ERROR(harness_.Expand(ctx_, fixtures_.volume.id, wished_bytes_));
  RETURN_IF_ERROR(Play(kGrownGeneration, device));
  const absl::Status status = AddGeneration(kGrownGeneration, device);
  RETURN_IF_ERROR(ctx_.Check());
  if (!status.ok()) {  // The others can be judged without it.
    sink_(MakeCheckResult(absl::StrCat("snapshot ", kGrownGeneration), "content",
                          std::string(status.message())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SnapshotFixtures> MakeSnapshotFixtures(const CallContext& ctx,
                                                      DriverHarness& harness,
                                                      const FixturePlan& plan,
                                                      const CheckResultSink& sink) {
  return FixtureMaker(ctx, harness, plan, sink).Make();
}

}  // namespace csidelta::conformance
