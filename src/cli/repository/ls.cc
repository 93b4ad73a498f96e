#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/enum_names.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/text.h"
#include "repository/tree.h"

namespace csidelta::cli {
namespace {

using repository::BlobId;
using repository::Node;
using repository::NodeType;
using repository::Repository;

// Limits on the output for a hostile repository. Hashes rule out cycles, but a tree may be the
// child of many trees.
constexpr int kDepthMax = 256;
constexpr int64_t kNodesMax = 50'000'000;
// For the trees from the root to the listed one: all of them are in memory.
constexpr std::size_t kListingBytesMax = std::size_t{512} << 20;

constexpr EnumNames<NodeType, 4> kTypeNames = {{{NodeType::kFile, "file"},
                                                {NodeType::kDir, "dir"},
                                                {NodeType::kSymlink, "symlink"},
                                                {NodeType::kOther, "other"}}};

// Prints the nodes of a tree and of all below it as they come.
class Lister {
 public:
  Lister(Repository& repository, Console& console, bool long_lines)
      : repository_(repository), console_(console), long_lines_(long_lines) {}

  absl::Status List(const CallContext& ctx, const BlobId& tree, const std::string& path,
                    int depth) {
    RETURN_IF_ERROR(ctx.Check());
    if (depth > kDepthMax) {
      return absl::DataLossError(absl::StrCat(path, " is nested too deep to be a real folder"));
    }
    ASSIGN_OR_RETURN(const std::string text, Annotate(repository_.LoadTree(ctx, tree, std::nullopt),
                                                      path.empty() ? "/" : path));
    text_bytes_ += text.size();
    if (text_bytes_ > kListingBytesMax) {
      return absl::DataLossError(absl::StrCat(path, " and the folders above it are too large"));
    }
    const absl::Status listed = repository::DecodeTree(text, [&](Node& node) -> absl::Status {
      const std::string node_path = absl::StrCat(path, "/", node.name);
      RETURN_IF_ERROR(Show(node, node_path));
      return node.subtree.has_value() ? List(ctx, *node.subtree, node_path, depth + 1)
                                      : absl::OkStatus();
    });
    text_bytes_ -= text.size();
    return listed;
  }

 private:
  absl::Status Show(const Node& node, const std::string& path) {
    if (++nodes_ > kNodesMax) {
      return absl::ResourceExhaustedError("the snapshot has more entries than can be listed");
    }
    if (console_.options().json) {
      console_.Print(absl::StrCat(nodes_ > 1 ? "," : "", "{\"name\":", JsonText(node.name),
                                  ",\"type\":\"", EnumName(kTypeNames, node.type), "\",\"path\":",
                                  JsonText(path), ",\"size\":", node.size_bytes, "}"));
    } else if (long_lines_) {
      console_.Print(absl::StrFormat("%-8s%16d  %s\n", EnumName(kTypeNames, node.type),
                                     node.size_bytes, Printable(path)));
    } else {
      console_.Print(absl::StrCat(Printable(path), "\n"));
    }
    return console_.Check();
  }

  Repository& repository_;
  Console& console_;
  const bool long_lines_;
  int64_t nodes_ = 0;
  std::size_t text_bytes_ = 0;
};

class LsCommand : public RepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.AddOptionalPositional("ID", kOneSnapshot, id_);
    table.Add("-l,--long", "also type and size in bytes", long_lines_);
    DeclareFilterFlags(table, filter_);
    return {.name = "ls",
            .summary = "List the files that a snapshot is made of",
            .details =
                "A volume is the files /image/000/00/data and so on, in their order, and what is "
                "known of it in /volume.json. With --json: one object with snapshot and "
                "nodes.",
            .examples = {"ls latest", "ls 8ab6fc6f --long"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    ASSIGN_OR_RETURN(id_, session.NameSnapshot(ctx, id_, filter_));
    ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kRead));
    ASSIGN_OR_RETURN(
        const repository::StoredSnapshot stored,
        engine::ChooseSnapshot(ctx, ListenerOf(session.console()), *repository, id_, filter_));
    Console& console = session.console();
    const bool json = console.options().json;
    if (json) {
      console.Print(absl::StrCat("{\"snapshot\":", SnapshotJsonText(stored), ",\"nodes\":["));
    }
    RETURN_IF_ERROR(
        Lister(*repository, console, long_lines_).List(ctx, stored.snapshot.tree, "", 0));
    if (json) {
      console.Print("]}\n");
    }
    return ExitCode::kOk;
  }

 private:
  std::string id_;
  bool long_lines_ = false;
  SnapshotFilter filter_;
};

}  // namespace

void AddLsCommand(Commands& all) { AddEach<LsCommand>(all); }

}  // namespace csidelta::cli
