#include "conformance/conformance.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/enum_names.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "cli/command.h"

namespace csidelta::cli {
namespace {

using conformance::CheckResult;
using conformance::Verdict;

constexpr char kDetails[] =
    "Makes volumes, writes, snapshots, lists through SnapshotMetadata and GetDifferentialSnapshot, "
    "restores, and compares whole devices byte by byte. Needs the driver's socket alone, no "
    "cluster, and mostly root. Deletes all that it made. Exit code 1 when a rule is broken.";

absl::Status ReadPairs(const std::vector<std::string>& words,
                       std::map<std::string, std::string>& pairs) {
  for (const std::string& word : words) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (pair.first.empty() || !absl::StrContains(word, '=')) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", word, "\" is not of the form KEY=VALUE"));
    }
    pairs[pair.first] = pair.second;
  }
  return absl::OkStatus();
}

absl::Status ReadSecrets(const std::string& path, std::map<std::string, Secret>& secrets) {
  if (path.empty()) {
    return absl::OkStatus();
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  }
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const absl::StatusOr<Json> json = ParseJsonObject(text);
  if (!json.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object"));
  }
  const std::map<std::string, std::string> texts = GetStringMap(*json, {});
  if (texts.size() != json->size()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has a value that is not a string"));
  }
  for (const auto& [name, value] : texts) {
    secrets[name] = Secret(value);
  }
  return absl::OkStatus();
}

constexpr EnumNames<Verdict, 3> kVerdictWords = {
    {{Verdict::kPass, "pass"}, {Verdict::kFail, "FAIL"}, {Verdict::kNotApplicable, "n/a"}}};

// Says check results as they fall, and counts them.
class Verdicts {
 public:
  explicit Verdicts(Console& console) : console_(console) {}

  void Report(const CheckResult& result) {
    ++counts_[result.verdict];
    const std::string word = EnumName(kVerdictWords, result.verdict);
    const absl::string_view rule_text = conformance::RuleText(result.rule);
    std::string line =
        absl::StrCat(word, word.size() < 4 ? "   " : "  ", result.subject, ": ", result.rule);
    if (!result.detail.empty()) {
      absl::StrAppend(&line, ": ", result.detail);
    }
    if (result.verdict == Verdict::kFail) {
      absl::StrAppend(&line, ". The rule: ", rule_text);
    }
    console_.PrintResult({{"message_type", "judgement"},
                          {"verdict", word},
                          {"subject", result.subject},
                          {"rule", result.rule},
                          {"rule_text", std::string(rule_text)},
                          {"detail", result.detail}},
                         absl::StrCat(line, "\n"));
  }

  ExitCode Close() {
    const int64_t failed = counts_[Verdict::kFail];
    console_.PrintResult({{"message_type", "result"},
                          {"passed", counts_[Verdict::kPass]},
                          {"failed", failed},
                          {"not_applicable", counts_[Verdict::kNotApplicable]}},
                         absl::StrCat(counts_[Verdict::kPass], " passed, ", failed, " failed, ",
                                      counts_[Verdict::kNotApplicable], " not applicable\n"));
    return failed == 0 ? ExitCode::kOk : ExitCode::kFailed;
  }

 private:
  Console& console_;
  std::map<Verdict, int64_t> counts_;
};

class ConformanceCommand : public Command {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.Add("--csi-address", "ADDRESS", "the driver's socket, as unix:///path (required)",
              options_.link.address);
    table.Add("--work-folder", "FOLDER",
              "an absolute path that the driver sees, too: holds the volumes and copies of them",
              options_.work_folder);
    table.AddBytes("--volume-size", "size of the volume that is written", options_.volume_bytes);
    table.AddNumber("--seed", "N", "random seed of the data that is written", 0, INT64_MAX, seed_);
    table.AddList("--parameter", "KEY=VALUE",
                  "a parameter of the driver's StorageClass; may be given again", parameters_);
    table.AddList("--snapshot-parameter", "KEY=VALUE",
                  "a parameter of its VolumeSnapshotClass; may be given again",
                  snapshot_parameters_);
    table.Add("--secrets-file", "FILE", "a JSON object of strings: the secrets of every call",
              secrets_path_);
    table.AddWait("--call-timeout", "how long one call of the driver may take", call_time_max_);
    table.AddWait("--time-limit", "how long the whole test may take, without the clean-up",
                  time_max_);
    return {.name = "conformance",
            .summary = "Test a CSI driver against the rules of changed block lists",
            .details = kDetails,
            .examples = {"conformance --csi-address unix:///csi.sock",
                         "conformance --csi-address unix:///csi.sock --parameter type=fast"}};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    if (!absl::StartsWith(options_.link.address, "unix:///")) {
      return absl::InvalidArgumentError(
          "give the driver's socket: --csi-address unix:///csi/csi.sock");
    }
    const std::string socket(absl::StripPrefix(options_.link.address, "unix://"));
    if (std::error_code error; !std::filesystem::exists(socket, error)) {
      return absl::NotFoundError(
          absl::StrCat("there is no socket ", socket, "; is the driver running?"));
    }
    if (!absl::StartsWith(options_.work_folder, "/")) {
      return absl::InvalidArgumentError("--work-folder wants an absolute path");
    }
    RETURN_IF_ERROR(ReadPairs(parameters_, options_.link.parameters));
    RETURN_IF_ERROR(ReadPairs(snapshot_parameters_, options_.link.snapshot_parameters));
    RETURN_IF_ERROR(ReadSecrets(secrets_path_, options_.link.secrets));
    options_.seed = static_cast<uint64_t>(seed_);
    options_.link.call_time_max = *call_time_max_;
    Verdicts verdicts(session.console());
    const absl::Status status = conformance::RunConformanceTest(
        ctx.WithTimeout(*time_max_), options_, Random::Real(),
        [&verdicts](const CheckResult& result) { verdicts.Report(result); });
    const ExitCode code = verdicts.Close();
    if (!status.ok()) {
      return WithNextStep(status);
    }
    return code;
  }

 private:
  // An error of the driver is not one of this program.
  absl::Status WithNextStep(const absl::Status& status) const {
    absl::string_view step = "; the driver's log says more";
    if (absl::IsDeadlineExceeded(status)) {
      step = "; raise --call-timeout or --time-limit if it is only slow";
    } else if (absl::StrContains(status.message(), "; ")) {
      step = "";
    }
    return absl::Status(status.code(), absl::StrCat(status.message(), step));
  }

  conformance::ConformanceOptions options_ = {.link = {}, .work_folder = "/var/tmp"};
  int64_t seed_ = 1;
  std::vector<std::string> parameters_;
  std::vector<std::string> snapshot_parameters_;
  std::string secrets_path_;
  std::optional<absl::Duration> call_time_max_ = absl::Minutes(5);
  std::optional<absl::Duration> time_max_ = absl::Hours(1);
};

}  // namespace

void AddConformanceCommand(Commands& all) { AddEach<ConformanceCommand>(all); }

}  // namespace csidelta::cli
