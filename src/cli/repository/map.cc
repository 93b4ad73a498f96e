#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/repository/change_map.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/text.h"
#include "cli/volume_diff.h"
#include "incremental/mover/volume_record.h"
#include "storage/posix_file.h"

namespace csidelta::cli {
namespace {

using incremental::VolumeRecord;
using repository::Repository;

constexpr int kLinesMax = 16;

// No more lines than chunks need: a cell is a chunk at least, but where the volume has few.
int LinesOf(const repository::VolumeLayout& layout, int cells) {
  const int64_t chunks = (layout.size_bytes() - 1) / layout.chunk_bytes() + 1;
  return static_cast<int>(std::clamp<int64_t>(chunks / cells, 1, static_cast<int64_t>(kLinesMax)));
}

std::string TitleOf(const VolumeRecord& before, const VolumeRecord& after, const ChangeMap& map) {
  return absl::StrCat(before.stored.id.ShortHex(), " to ", after.stored.id.ShortHex(), ": ",
                      FormatBytes(map.bytes()), " of ", FormatBytes(after.layout.size_bytes()),
                      " changed, in ", Counted(map.extents(), "range"));
}

absl::Status WriteNewFile(const std::string& path, absl::string_view bytes) {
  constexpr mode_t kMode = 0644;
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  return file.valid() && FdSink(file.get())(bytes) ? absl::OkStatus()
                                                   : storage::ErrnoToStatus(errno, path);
}

Json RangesJson(const ChangeMap& map) {
  Json ranges = Json::array();
  for (const Extent& extent : map.largest()) {
    ranges.push_back(
        {{"offset_bytes", extent.offset_bytes}, {"length_bytes", extent.length_bytes}});
  }
  return ranges;
}

std::string RangeLines(const ChangeMap& map) {
  std::vector<std::vector<std::string>> rows = {{"largest ranges", "at", "offset in bytes"}};
  for (const Extent& extent : map.largest()) {
    rows.push_back({FormatBytes(extent.length_bytes), FormatBytes(extent.offset_bytes),
                    absl::StrCat(extent.offset_bytes)});
  }
  return rows.size() == 1 ? "" : FormatTable(rows);
}

struct VolumePair {
  std::unique_ptr<VolumeRecord> before;
  std::unique_ptr<VolumeRecord> after;
};

void PrintMap(Session& session, const VolumePair& pair, const ChangeMap& map) {
  const int64_t before_bytes = pair.before->layout.size_bytes();
  const int64_t after_bytes = pair.after->layout.size_bytes();
  session.console().PrintResult(
      {{"message_type", "result"},
       {"source_snapshot", pair.before->stored.id.Hex()},
       {"target_snapshot", pair.after->stored.id.Hex()},
       {"source_bytes", before_bytes},
       {"target_bytes", after_bytes},
       {"chunk_bytes", pair.after->layout.chunk_bytes()},
       {"changed_bytes", map.bytes()},
       {"extents", map.extents()},
       {"picture", map.Picture()},
       {"sizes", map.Histogram()},
       {"largest", RangesJson(map)}},
      absl::StrCat(engine::VolumeName(pair.after->stored.snapshot), "\n",
                   TitleOf(*pair.before, *pair.after, map), "\n",
                   before_bytes == after_bytes
                       ? ""
                       : absl::StrCat("the volume had ", FormatBytes(before_bytes), " before\n")),
      absl::StrCat(map.PictureLines(HasColors(session.environment())),
                   map.extents() == 0
                       ? ""
                       : absl::StrCat("\n", map.HistogramLines(), "\n", RangeLines(map))));
}

class MapCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<VolumePair> OpenBoth(const CallContext& ctx, Session& session,
                                      Repository& repository) const;

  std::vector<std::string> ids_;
  std::string svg_;
};

VerbSyntax MapCommand::Describe(ArgumentTable& table) {
  table.AddPositionals(
      "ID",
      "the older and the newer snapshot, by the beginnings of their ids, the names of their "
      "Backups of Velero, or \"latest\"; one alone: since its parent",
      1, 2, ids_);
  table.Add("--svg", "FILE", "also write the picture to a new file, as SVG", svg_);
  return {
      .name = "map",
      .summary = "Draw where a volume changed between two snapshots",
      .details =
          "Each line of the picture begins with its offset in the volume. Shades say how much of "
          "a part changed. The picture is as wide as the terminal, in colors unless NO_COLOR is "
          "set; with --json and --svg a line has 64 parts. Then come the sizes of the ranges that "
          "changed, and the largest ones. Chunks are compared by their ids, without reading data: "
          "what changed is rounded out to chunks, and what was rewritten with the same data did "
          "not change. Both snapshots must have chunks of one size.",
      .examples = {"map latest  # since its parent", "map 8ab6fc6f 1c44d09e"}};
}

absl::StatusOr<ExitCode> MapCommand::Run(const CallContext& ctx, Session& session) {
  ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kRead));
  ASSIGN_OR_RETURN(const VolumePair pair, OpenBoth(ctx, session, *repository));
  const repository::VolumeLayout& layout = pair.after->layout;
  const int cells = session.console().options().json || !svg_.empty()
                        ? ChangeMap::kCells
                        : ChangeMap::CellsOf(session.environment().table_columns);
  ChangeMap map(layout.size_bytes(), LinesOf(layout, cells), cells);
  {
    ProgressMeter meter(session.console(), *ctx.clock);
    RETURN_IF_ERROR(
        CompareVolumes(ctx, *pair.before, *pair.after, meter, [&](const Extent& extent) {
          map.Add({.extent = extent});
          return absl::OkStatus();
        }));
  }
  if (!svg_.empty()) {
    RETURN_IF_ERROR(WriteNewFile(svg_, map.Svg(TitleOf(*pair.before, *pair.after, map))));
  }
  PrintMap(session, pair, map);
  return ExitCode::kOk;
}

absl::StatusOr<VolumePair> MapCommand::OpenBoth(const CallContext& ctx, Session& session,
                                                Repository& repository) const {
  VolumePair pair;
  ASSIGN_OR_RETURN(pair.after, OpenVolume(ctx, session.console(), repository, ids_.back()));
  std::string older = ids_.front();
  if (ids_.size() == 1) {
    const repository::StoredSnapshot& after = pair.after->stored;
    if (!after.snapshot.parent.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("snapshot ", after.id.ShortHex(),
                       " has no parent; name two snapshots of the volume: csi-delta map OLDER ",
                       after.id.ShortHex()));
    }
    older = after.snapshot.parent->Hex();
  }
  ASSIGN_OR_RETURN(pair.before, OpenVolume(ctx, session.console(), repository, older));
  return pair;
}

}  // namespace

void AddMapCommand(Commands& all) { AddEach<MapCommand>(all); }

}  // namespace csidelta::cli
