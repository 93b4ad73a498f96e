#include "conformance/exhibits.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "conformance/story.h"
#include "conformance/volume_file.h"

namespace csidelta::conformance {
namespace {

constexpr int kQuietGeneration = 3;
constexpr int kGrownGeneration = 4;
constexpr int kCloneGeneration = 5;
constexpr int64_t kForeignBytes = kVolumeBytesMin;

class ExhibitMaker {
 public:
  ExhibitMaker(const CallContext& ctx, Workshop& workshop, const ExhibitPlan& plan,
               const JudgementSink& sink)
      : ctx_(ctx), workshop_(workshop), plan_(plan), sink_(sink) {}

  absl::StatusOr<Exhibits> Make();

 private:
  // The volume's own size, which every driver can make.
  int64_t foreign_bytes() const { return std::max(kForeignBytes, plan_.volume_bytes); }

  absl::Status Play(int generation, const std::string& device);
  absl::Status Do(const StoryPlace& place, const Step& step, VolumeFile& volume);

  // Snapshots the volume, and judges what the snapshot holds.
  absl::Status AddGeneration(int generation, const std::string& device);

  // Copies a volume made of the snapshot. `like`: an image of its size.
  absl::Status Restore(const std::string& like, Exhibit& exhibit);
  absl::Status MakeClone();
  absl::Status Grow(const std::string& device);

  const CallContext& ctx_;
  Workshop& workshop_;
  const ExhibitPlan plan_;
  const JudgementSink& sink_;
  // Of the volume; a device may be larger, or not grow though the driver says so.
  int64_t wished_bytes_ = plan_.volume_bytes;
  Exhibits exhibits_;
  std::vector<Extent> discarded_;
};

absl::StatusOr<Exhibits> ExhibitMaker::Make() {
  ASSIGN_OR_RETURN(exhibits_.volume, workshop_.MakeVolume(ctx_, plan_.volume_bytes, ""));
  ASSIGN_OR_RETURN(const std::string device, workshop_.Attach(ctx_, exhibits_.volume.id));
  RETURN_IF_ERROR(AddGeneration(0, device));
  for (const int generation : {1, 2}) {
    RETURN_IF_ERROR(Play(generation, device));
    RETURN_IF_ERROR(AddGeneration(generation, device));
  }
  RETURN_IF_ERROR(AddGeneration(kQuietGeneration, device));
  RETURN_IF_ERROR(MakeClone());
  ASSIGN_OR_RETURN(const VolumeFacts foreign, workshop_.MakeVolume(ctx_, foreign_bytes(), ""));
  ASSIGN_OR_RETURN(exhibits_.foreign_snapshot_id, workshop_.MakeSnapshot(ctx_, foreign.id));
  RETURN_IF_ERROR(Grow(device));
  return std::move(exhibits_);
}

absl::Status ExhibitMaker::Play(int generation, const std::string& device) {
  ASSIGN_OR_RETURN(VolumeFile volume, VolumeFile::Open(device, /*writable=*/true));
  if (volume.size_bytes() < kVolumeBytesMin) {
    return absl::FailedPreconditionError(
        absl::StrCat("the volume has ", volume.size_bytes(), " bytes; give --volume-size"));
  }
  const StoryPlace place{.seed = plan_.seed, .generation = generation};
  for (const Step& step : StepsOf(place, volume.size_bytes())) {
    RETURN_IF_ERROR(ctx_.Check());
    RETURN_IF_ERROR(Do(place, step, volume));
  }
  return volume.Flush();
}

absl::Status ExhibitMaker::Do(const StoryPlace& place, const Step& step, VolumeFile& volume) {
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

absl::Status ExhibitMaker::AddGeneration(int generation, const std::string& device) {
  const std::string written = workshop_.ImagePath(absl::StrCat("written-", generation));
  RETURN_IF_ERROR(CopyToImage(ctx_, device, written));
  Exhibit exhibit{.image = workshop_.ImagePath(absl::StrCat("restored-", generation))};
  ASSIGN_OR_RETURN(exhibit.snapshot_id, workshop_.MakeSnapshot(ctx_, exhibits_.volume.id));
  RETURN_IF_ERROR(Restore(written, exhibit));
  ASSIGN_OR_RETURN(std::vector<Extent> wrong, DifferingExtents(ctx_, written, exhibit.image));
  wrong = SubtractExtents(wrong, MergeExtents(discarded_));
  sink_(Judge(absl::StrCat("snapshot ", generation), "content",
              wrong.empty() ? ""
                            : absl::StrCat(TotalBytes(wrong), " bytes are others, the first at ",
                                           Describe(wrong.front()))));
  exhibits_.generations.push_back(std::move(exhibit));
  return absl::OkStatus();
}

absl::Status ExhibitMaker::Restore(const std::string& like, Exhibit& exhibit) {
  ASSIGN_OR_RETURN(const VolumeFile source, VolumeFile::Open(like, /*writable=*/false));
  exhibit.size_bytes = source.size_bytes();
  ASSIGN_OR_RETURN(
      const VolumeFacts restored,
      workshop_.MakeVolume(ctx_, std::max(exhibit.size_bytes, wished_bytes_), exhibit.snapshot_id));
  ASSIGN_OR_RETURN(const std::string device, workshop_.Attach(ctx_, restored.id));
  RETURN_IF_ERROR(CopyToImage(ctx_, device, exhibit.image));
  return workshop_.DropVolume(ctx_, restored.id);
}

absl::Status ExhibitMaker::MakeClone() {
  const Exhibit& source = exhibits_.generations[2];
  ASSIGN_OR_RETURN(
      const VolumeFacts clone,
      workshop_.MakeVolume(ctx_, std::max(source.size_bytes, wished_bytes_), source.snapshot_id));
  ASSIGN_OR_RETURN(const std::string device, workshop_.Attach(ctx_, clone.id));
  {
    const StoryPlace place{.seed = plan_.seed, .generation = kCloneGeneration};
    ASSIGN_OR_RETURN(VolumeFile volume, VolumeFile::Open(device, /*writable=*/true));
    const int64_t middle = volume.size_bytes() / 2 / kStepBytes * kStepBytes;
    RETURN_IF_ERROR(Do(place, {StepKind::kWrite, {middle, kStepBytes}}, volume));
    RETURN_IF_ERROR(volume.Flush());
  }
  exhibits_.clone.image = workshop_.ImagePath("clone");
  exhibits_.clone.size_bytes = source.size_bytes;
  RETURN_IF_ERROR(CopyToImage(ctx_, device, exhibits_.clone.image));
  ASSIGN_OR_RETURN(exhibits_.clone.snapshot_id, workshop_.MakeSnapshot(ctx_, clone.id));
  return workshop_.Detach(ctx_, clone.id);
}

absl::Status ExhibitMaker::Grow(const std::string& device) {
  if (!workshop_.facts().expands) {
    sink_({.verdict = Verdict::kNotApplicable,
           .subject = absl::StrCat("snapshot ", kGrownGeneration),
           .rule = "content",
           .detail = "the driver does not announce EXPAND_VOLUME"});
    return absl::OkStatus();
  }
  wished_bytes_ += plan_.volume_bytes / 2;
  RETURN_IF_ERROR(workshop_.Expand(ctx_, exhibits_.volume.id, wished_bytes_));
  RETURN_IF_ERROR(Play(kGrownGeneration, device));
  const absl::Status status = AddGeneration(kGrownGeneration, device);
  RETURN_IF_ERROR(ctx_.Check());
  if (!status.ok()) {  // The others can be judged without it.
    sink_(Judge(absl::StrCat("snapshot ", kGrownGeneration), "content",
                std::string(status.message())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Exhibits> MakeExhibits(const CallContext& ctx, Workshop& workshop,
                                      const ExhibitPlan& plan, const JudgementSink& sink) {
  return ExhibitMaker(ctx, workshop, plan, sink).Make();
}

}  // namespace csidelta::conformance
