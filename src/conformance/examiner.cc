#include "conformance/examiner.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "conformance/volume_file.h"

namespace csidelta::conformance {
namespace {

// Tuples from whose ends a list is asked for again, evenly chosen.
constexpr int64_t kResumesMax = 100;
constexpr int64_t kFarBehindBytes = 1 << 20;
constexpr int64_t kResultsMax[] = {1, 7, std::numeric_limits<int32_t>::max()};
constexpr char kUnknownHandle[] = "csi-delta-conformance-a-handle-that-does-not-exist";
constexpr int64_t kTimeoutMin = 1'000'000'000;  // seconds since 1970; less is a duration

using Codes = absl::Span<const absl::StatusCode>;
constexpr absl::StatusCode kRefusals[] = {absl::StatusCode::kInvalidArgument,
                                          absl::StatusCode::kNotFound,
                                          absl::StatusCode::kFailedPrecondition};
constexpr absl::StatusCode kNoArgument[] = {absl::StatusCode::kInvalidArgument};
constexpr absl::StatusCode kUnknown[] = {absl::StatusCode::kNotFound};

bool IsOneOf(const absl::Status& status, Codes codes) {
  return std::find(codes.begin(), codes.end(), status.code()) != codes.end();
}

// "" or what was answered in place of one of `codes`.
std::string UnlessOneOf(const absl::Status& status, Codes codes) {
  return IsOneOf(status, codes) ? "" : DescribeEnd(status);
}

// Asks one service about the fixtures.
class Examiner {
 public:
  Examiner(const CallContext& ctx, Lister& lister, const SnapshotFixtures& fixtures,
           const CheckResultSink& sink)
      : ctx_(ctx), lister_(lister), fixtures_(fixtures), sink_(sink) {}

  absl::Status Run();
  absl::Status RunWithoutBase();

 private:
  std::string Subject(absl::string_view what) const {
    return absl::StrCat(lister_.name(), " ", what);
  }
  void Say(absl::string_view subject, absl::string_view rule, std::string fault) const {
    sink_(MakeCheckResult(subject, rule, std::move(fault)));
  }
  Answer Ask(const Pair& pair, int64_t from_bytes = 0, int64_t results_max = 0) {
    return lister_.Ask(ctx_, pair, from_bytes, results_max);
  }
  const std::string& HandleOf(std::size_t generation) const {
    return fixtures_.generations[generation].snapshot_id;
  }
  Pair DeltaOf(std::size_t base, std::size_t target) const {
    return {.base = HandleOf(base), .target = HandleOf(target), .delta = true};
  }
  static Question QuestionOf(const SnapshotFixture& target) {
    return {.volume_bytes = target.size_bytes};
  }
  absl::StatusOr<std::vector<Extent>> TruthOf(std::size_t base, std::size_t target) const;

  // A whole list: its form, and whether all is in it.
  absl::Status CheckList(absl::string_view what, const Pair& pair, const std::string& base_image,
                         const SnapshotFixture& target);
  absl::Status CheckZeros(absl::string_view subject, const Listing& listing,
                          const SnapshotFixture& target) const;
  absl::Status CheckLists();
  absl::Status CheckListedSizes(const Pair& pair, const std::vector<Extent>& truth,
                                Question question);

  // From the end of tuples on, and from their middle.
  absl::Status CheckResuming(const Pair& pair, const std::vector<Extent>& truth, Question question);
  static void Note(std::string& fault, int64_t place, const CheckResult& result);
  absl::Status CheckOffsets(const Pair& pair);
  absl::Status CheckRefusal(absl::string_view what, absl::string_view rule, const Pair& pair,
                            Codes codes);
  absl::Status CheckHandles(const Pair& pair);
  absl::Status CheckOddPairs();

  const CallContext& ctx_;
  Lister& lister_;
  const SnapshotFixtures& fixtures_;
  const CheckResultSink& sink_;
};

absl::Status Examiner::Run() {
  RETURN_IF_ERROR(CheckLists());
  const Pair pair = DeltaOf(1, 2);
  ASSIGN_OR_RETURN(const std::vector<Extent> truth, TruthOf(1, 2));
  const Question question = QuestionOf(fixtures_.generations[2]);
  RETURN_IF_ERROR(CheckListedSizes(pair, truth, question));
  const bool takes_offsets =
      !lister_.in_pages() || !absl::IsInvalidArgument(Ask(pair, kStepBytes).listing.end);
  if (takes_offsets) {
    RETURN_IF_ERROR(CheckResuming(pair, truth, question));
    RETURN_IF_ERROR(CheckOffsets(pair));
  } else {
    for (const char* rule : {"resume", "clipping", "out-of-range", "at-the-end"}) {
      sink_({.verdict = Verdict::kNotApplicable,
             .subject = Subject("delta 1-2"),
             .rule = rule,
             .detail = "its cursors are no byte offsets"});
    }
  }
  RETURN_IF_ERROR(CheckHandles(pair));
  return CheckOddPairs();
}

absl::Status Examiner::RunWithoutBase() {
  const Answer answer = Ask(DeltaOf(1, 2));
  RETURN_IF_ERROR(ctx_.Check());
  const std::string subject = Subject("delta 1-2");
  if (!answer.listing.end.ok()) {
    Say(subject, "deleted-base", UnlessOneOf(answer.listing.end, {absl::StatusCode::kNotFound}));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<Extent> truth, TruthOf(1, 2));
  sink_(CheckCoverage(subject, "deleted-base", answer.listing, truth,
                      QuestionOf(fixtures_.generations[2])));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Extent>> Examiner::TruthOf(std::size_t base, std::size_t target) const {
  return DifferingExtents(ctx_, fixtures_.generations[base].image,
                          fixtures_.generations[target].image);
}

absl::Status Examiner::CheckList(absl::string_view what, const Pair& pair,
                                 const std::string& base_image, const SnapshotFixture& target) {
  const Answer answer = Ask(pair);
  RETURN_IF_ERROR(ctx_.Check());
  const Question question = QuestionOf(target);
  const std::string subject = Subject(what);
  for (const CheckResult& result : CheckForm(subject, answer.listing, question)) {
    sink_(result);
  }
  if (!answer.pages.empty()) {
    Say(subject, "cursor", answer.cursor_fault);
  }
  ASSIGN_OR_RETURN(const std::vector<Extent> truth,
                   DifferingExtents(ctx_, base_image, target.image));
  sink_(CheckCoverage(subject, "complete", answer.listing, truth, question));
  return CheckZeros(subject, answer.listing, target);
}

absl::Status Examiner::CheckZeros(absl::string_view subject, const Listing& listing,
                                  const SnapshotFixture& target) const {
  const std::vector<Extent> zeros = ListedZeros(listing);
  if (zeros.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<Extent> data, DifferingExtents(ctx_, "", target.image));
  const std::vector<Extent> true_zeros = SubtractExtents(zeros, data);
  const int64_t lies_bytes = TotalBytes(zeros) - TotalBytes(true_zeros);
  Say(subject, "zero-out",
      lies_bytes == 0 ? "" : absl::StrCat(lies_bytes, " bytes are called zero and are not"));
  return absl::OkStatus();
}

absl::Status Examiner::CheckLists() {
  const std::vector<SnapshotFixture>& all = fixtures_.generations;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Pair pair{.target = HandleOf(i)};
    RETURN_IF_ERROR(CheckList(absl::StrCat("allocated ", i), pair, "", all[i]));
  }
  RETURN_IF_ERROR(CheckList("allocated clone-of-2", {.target = fixtures_.clone.snapshot_id}, "",
                            fixtures_.clone));
  for (std::size_t i = 1; i < all.size(); ++i) {
    RETURN_IF_ERROR(CheckList(absl::StrCat("delta ", i - 1, "-", i), DeltaOf(i - 1, i),
                              all[i - 1].image, all[i]));
  }
  return CheckList("delta 0-2", DeltaOf(0, 2), all[0].image, all[2]);
}

absl::Status Examiner::CheckListedSizes(const Pair& pair, const std::vector<Extent>& truth,
                                        Question question) {
  for (const int64_t results_max : kResultsMax) {
    const Answer answer = Ask(pair, 0, results_max);
    RETURN_IF_ERROR(ctx_.Check());
    question.results_max = results_max;
    const std::string subject = Subject(absl::StrCat("delta 1-2 by ", results_max));
    for (const CheckResult& result : CheckForm(subject, answer.listing, question)) {
      if (result.rule == "max-results" || result.verdict == Verdict::kFail) {
        sink_(result);
      }
    }
    sink_(CheckCoverage(subject, "complete", answer.listing, truth, question));
  }
  return absl::OkStatus();
}

absl::Status Examiner::CheckResuming(const Pair& pair, const std::vector<Extent>& truth,
                                     Question question) {
  const std::string subject = Subject("delta 1-2");
  std::vector<int64_t> places;
  for (const Message& message : Ask(pair).listing.messages) {
    for (const Tuple& tuple : message.tuples) {
      if (IsWellFormed(tuple.extent) && tuple.extent.end_bytes() < question.volume_bytes) {
        places.push_back(tuple.extent.offset_bytes + tuple.extent.length_bytes / 2);
        places.push_back(tuple.extent.end_bytes());
      }
    }
  }
  const std::size_t step = std::max<std::size_t>(1, places.size() / kResumesMax) | 1;
  std::string resume_fault;
  std::string clipping_fault;
  for (std::size_t i = 0; i < places.size(); i += step) {
    question.from_bytes = places[i];
    const Answer answer = Ask(pair, places[i]);
    RETURN_IF_ERROR(ctx_.Check());
    Note(resume_fault, places[i],
         CheckCoverage(subject, "resume", answer.listing, truth, question));
    for (const CheckResult& result : CheckForm(subject, answer.listing, question)) {
      if (result.rule == "clipping") {
        Note(clipping_fault, places[i], result);
      }
    }
  }
  Say(subject, "resume", resume_fault);
  Say(subject, "clipping", clipping_fault);
  return absl::OkStatus();
}

void Examiner::Note(std::string& fault, int64_t place, const CheckResult& result) {
  if (fault.empty() && result.verdict == Verdict::kFail) {
    fault = absl::StrCat("from ", place, " on: ", result.detail);
  }
}

absl::Status Examiner::CheckOffsets(const Pair& pair) {
  const int64_t volume_bytes = fixtures_.generations[2].size_bytes;
  const std::string subject = Subject("delta 1-2");
  const Answer whole = Ask(pair);
  int64_t end_bytes = volume_bytes;
  for (const Message& message : whole.listing.messages) {
    end_bytes = std::max(end_bytes, message.capacity_bytes);
  }
  for (const int64_t place : {int64_t{-1}, end_bytes + kFarBehindBytes}) {
    const Answer answer = Ask(pair, place);
    RETURN_IF_ERROR(ctx_.Check());
    Say(absl::StrCat(subject, " from ", place), "out-of-range",
        place < 0 && lister_.in_pages()  // A cursor that is no decimal number.
            ? UnlessOneOf(answer.listing.end,
                          {absl::StatusCode::kOutOfRange, absl::StatusCode::kInvalidArgument})
            : UnlessOneOf(answer.listing.end, {absl::StatusCode::kOutOfRange}));
  }
  const Answer answer = Ask(pair, end_bytes);
  RETURN_IF_ERROR(ctx_.Check());
  std::string fault =
      UnlessOneOf(answer.listing.end, {absl::StatusCode::kOk, absl::StatusCode::kOutOfRange});
  if (answer.listing.TupleCount() > 0) {
    fault = absl::StrCat("there are ", answer.listing.TupleCount(), " tuples");
  }
  Say(absl::StrCat(subject, " from ", end_bytes), "at-the-end", fault);
  return absl::OkStatus();
}

absl::Status Examiner::CheckRefusal(absl::string_view what, absl::string_view rule,
                                    const Pair& pair, Codes codes) {
  const Answer answer = Ask(pair);
  RETURN_IF_ERROR(ctx_.Check());
  Say(Subject(what), rule, UnlessOneOf(answer.listing.end, codes));
  return absl::OkStatus();
}

absl::Status Examiner::CheckHandles(const Pair& pair) {
  RETURN_IF_ERROR(CheckRefusal("allocated, no target", "no-argument", {}, kNoArgument));
  if (!lister_.in_pages()) {  // There it asks for what is allocated.
    RETURN_IF_ERROR(CheckRefusal("delta, no base", "no-argument",
                                 {.target = pair.target, .delta = true}, kNoArgument));
  }
  RETURN_IF_ERROR(CheckRefusal("delta, no target", "no-argument",
                               {.base = pair.base, .delta = true}, kNoArgument));
  RETURN_IF_ERROR(CheckRefusal("allocated, unknown target", "unknown-handle",
                               {.target = kUnknownHandle}, kUnknown));
  RETURN_IF_ERROR(CheckRefusal("delta, unknown target", "unknown-handle",
                               {.base = pair.base, .target = kUnknownHandle, .delta = true},
                               kUnknown));
  return CheckRefusal("delta, unknown base", "unknown-handle",
                      {.base = kUnknownHandle, .target = pair.target, .delta = true}, kUnknown);
}

absl::Status Examiner::CheckOddPairs() {
  RETURN_IF_ERROR(CheckRefusal(
      "delta, base of another volume", "foreign-pair",
      {.base = fixtures_.foreign_snapshot_id, .target = HandleOf(2), .delta = true}, kRefusals));
  const Answer same = Ask(DeltaOf(2, 2));
  RETURN_IF_ERROR(ctx_.Check());
  Say(Subject("delta 2-2"), "same-snapshot",
      same.listing.end.ok() && same.listing.TupleCount() > 0
          ? absl::StrCat("there are ", same.listing.TupleCount(), " tuples")
      : same.listing.end.ok() ? ""
                              : UnlessOneOf(same.listing.end, kRefusals));
  const Answer reversed = Ask(DeltaOf(2, 1));
  RETURN_IF_ERROR(ctx_.Check());
  if (!reversed.listing.end.ok()) {
    Say(Subject("delta 2-1"), "reversed-pair", UnlessOneOf(reversed.listing.end, kRefusals));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<Extent> truth, TruthOf(2, 1));
  sink_(CheckCoverage(Subject("delta 2-1"), "reversed-pair", reversed.listing, truth,
                      QuestionOf(fixtures_.generations[1])));
  return absl::OkStatus();
}

}  // namespace

absl::Status Examine(const CallContext& ctx, Lister& lister, const SnapshotFixtures& fixtures,
                     const CheckResultSink& sink) {
  return Examiner(ctx, lister, fixtures, sink).Run();
}

absl::Status ExamineDeletedBase(const CallContext& ctx, Lister& lister,
                                const SnapshotFixtures& fixtures, const CheckResultSink& sink) {
  return Examiner(ctx, lister, fixtures, sink).RunWithoutBase();
}

namespace {

constexpr char kPages[] = "DifferentialSnapshot delta 1-2";
constexpr int64_t kPageEntries = 7;

// When the last page was handed out, until when its result was promised.
std::string FindExpired(const Answer& answer, absl::Time now) {
  for (std::size_t i = 0; i < answer.pages.size(); ++i) {
    const uint64_t timeout_s = answer.pages[i].timeout_s;
    if (timeout_s != 0 && (timeout_s < static_cast<uint64_t>(kTimeoutMin) ||
                           timeout_s <= static_cast<uint64_t>(absl::ToUnixSeconds(now)))) {
      return absl::StrCat("page ", i + 1, " says ", timeout_s);
    }
  }
  return "";
}

absl::Status CheckPageAgain(const CallContext& ctx, PageLister& lister, const Pair& pair,
                            const std::vector<Extent>& truth, const Answer& whole,
                            const CheckResultSink& sink) {
  int64_t end_bytes = 0;
  for (std::size_t i = 0; i < whole.pages.size(); i += 1 + whole.pages.size() / kResumesMax) {
    const Answer again = lister.AskFrom(ctx, pair, whole.pages[i].start_offset, kPageEntries);
    RETURN_IF_ERROR(ctx.Check());
    end_bytes = 0;
    for (std::size_t before = 0; before < i; ++before) {
      for (const Tuple& tuple : whole.listing.messages[before].tuples) {
        end_bytes = IsWellFormed(tuple.extent) ? tuple.extent.end_bytes() : end_bytes;
      }
    }
    CheckResult result =
        CheckCoverage(kPages, "page-again", again.listing, truth, {.from_bytes = end_bytes});
    if (result.verdict == Verdict::kFail) {
      result.detail = absl::StrCat("page ", i + 1, ": ", result.detail);
      sink(result);
      return absl::OkStatus();
    }
  }
  sink(MakeCheckResult(kPages, "page-again", ""));
  return absl::OkStatus();
}

}  // namespace

absl::Status ExaminePages(const CallContext& ctx, PageLister& lister, DriverLink& link,
                          const SnapshotFixtures& fixtures, const CheckResultSink& sink) {
  const SnapshotFixture& target = fixtures.generations[2];
  const Pair pair{
      .base = fixtures.generations[1].snapshot_id, .target = target.snapshot_id, .delta = true};
  ASSIGN_OR_RETURN(const std::vector<Extent> truth,
                   DifferingExtents(ctx, fixtures.generations[1].image, target.image));
  const Answer whole = lister.AskFrom(ctx, pair, "", kPageEntries);
  sink(MakeCheckResult(kPages, "cursor", whole.cursor_fault));
  sink(MakeCheckResult(kPages, "expiry", FindExpired(whole, ctx.clock->Now())));
  RETURN_IF_ERROR(CheckPageAgain(ctx, lister, pair, truth, whole, sink));
  const auto judge = [&](absl::string_view rule, PageQuery query, Codes codes) {
    query.base = pair.base;
    query.target = pair.target;
    sink(MakeCheckResult(kPages, rule, UnlessOneOf(link.GetPage(ctx, query).status(), codes)));
    return ctx.Check();
  };
  RETURN_IF_ERROR(judge("mode", {.mode = "File"},
                        {absl::StatusCode::kUnimplemented, absl::StatusCode::kInvalidArgument}));
  RETURN_IF_ERROR(judge("forged-cursor", {.start_offset = "no-cursor-of-this-driver"},
                        {absl::StatusCode::kInvalidArgument}));
  RETURN_IF_ERROR(
      judge("volume", {.volume_id = kUnknownHandle}, {absl::StatusCode::kInvalidArgument}));
  return judge("volume", {.volume_id = fixtures.volume.id}, {absl::StatusCode::kOk});
}

}  // namespace csidelta::conformance
