#include "report/page.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/human_text.h"
#include "base/json_text.h"
#include "incremental/mover/full_reason.h"
#include "report/summary.h"

namespace csidelta::report {
namespace {

// The policy lets nothing load and no script run, whatever a text of the report manages to be.
constexpr char kHead[] = R"(<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';style-src 'unsafe-inline'">
<style>
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2127;--dim:#59636e;--line:#d8dee4;--ok:#1a7440;
--bad:#b3261e;--on:#fff;--warn:#7a4d00;--tint:#fdeecb;--card:#f7f8fa;--bar:#3d6b99;--cut:#9aaabb}
@media(prefers-color-scheme:dark){:root{--bg:#14181c;--fg:#e4e8ec;--dim:#9aa5b1;--line:#323a43;
--ok:#56b881;--bad:#ff9a90;--on:#14181c;--warn:#f3c56b;--tint:#3d2f10;--card:#1c2127;--bar:#7fabd6;
--cut:#56636f}}
*{box-sizing:border-box;margin:0}
html{font:clamp(15px,.35vw + 12px,22px)/1.5 system-ui,sans-serif;background:var(--bg);
color:var(--fg)}
body{padding:clamp(1rem,3vw,3.5rem);overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
h1{font-size:clamp(1.4rem,1.1rem + 1vw,2rem);line-height:1.2;font-weight:650;max-width:48ch;text-wrap:balance;
margin:.4rem 0 1rem}
h1::before,.p h3::before{display:inline-block;margin-right:.4em}
.bad::before{content:"\00d7";color:var(--bad)}.good::before{content:"\2713";color:var(--ok)}
h2{font-size:1.25rem;margin:3rem 0 .75rem}h3{font-size:1rem;font-weight:600}
p,li,ol{max-width:72ch}ul,ol{padding:0;list-style:none}a{color:inherit}
.dim,small,dt,figcaption,.k{color:var(--dim)}small,.k,figcaption,.h,.n{font-size:.8rem}
ol{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,27rem),1fr));gap:1.6rem 2rem;
max-width:none}.p{border-left:4px solid var(--cut);padding:.1rem 0 .1rem 1rem;break-inside:avoid}
.p0,.p1{border-color:var(--bad)}.p2{border-color:var(--warn)}
.p0 h3::before{content:"!"}.p1 h3::before{content:"\00d7"}.p2 h3::before{content:"o"}
.p3 h3::before{content:"F"}.p4 h3::before{content:"i"}.p1 h3::before,.p0 h3::before{color:var(--bad)}
.next{margin-top:.35rem}.next b{font-weight:600}
.c{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:.8rem;
line-height:1.5;white-space:normal;overflow-wrap:normal;color:var(--ok);max-width:none}
.c b{background:var(--bad);color:var(--on);font-weight:400}.c i,.k i{background:var(--tint);
color:var(--warn);font-style:normal;font-weight:700}.c u{color:var(--fg);text-decoration:none;font-weight:700}
.c s{color:var(--dim);text-decoration:none}
.r{display:grid;grid-template-columns:minmax(6rem,11rem) 5.2rem 1fr;gap:0 1rem;
border-top:1px solid var(--line);padding:.18rem 0;break-inside:avoid}
.r>a{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;font-size:.85rem;align-self:center}
.n{text-align:right;align-self:center}.h{position:sticky;top:0;background:var(--bg);border:0;
z-index:1}.h .c{color:var(--dim)}
.g{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,24rem),1fr));gap:1.2rem;
align-items:start}
.v{background:var(--card);border:1px solid var(--line);border-radius:.4rem;padding:1rem;
break-inside:avoid;min-width:0}.v:target{outline:2px solid var(--bar)}
.s{font-weight:600;color:var(--bad)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;font-size:.85rem;
margin:.5rem 0}
figure{margin:.6rem 0 0}figcaption b{color:var(--fg);font-weight:600}
svg{display:block;width:100%;height:1.6rem;border-bottom:1px solid var(--cut);fill:var(--bar)}
svg .x{fill:var(--cut)}
details{margin-top:.7rem;font-size:.8rem}summary{cursor:pointer}
table{border-collapse:collapse;width:100%;margin-top:.4rem;font-size:.95em}td,th{text-align:right;
vertical-align:top;padding:.15rem 0 0 .5rem;white-space:nowrap;font-weight:400}
td:first-child,th:first-child{text-align:left;padding-left:0}td:only-child{white-space:normal;
padding:0 0 .2rem;border-bottom:1px solid var(--line);color:var(--dim)}
th{color:var(--dim)}footer{margin-top:3rem;color:var(--dim);font-size:.85rem}
@media(max-width:40rem){.r{grid-template-columns:1fr auto}.r .c{grid-column:1/3}
.h a,.h .n{display:none}}
@media print{html{font-size:10px}body{padding:0}.h{position:static}*{print-color-adjust:exact;
-webkit-print-color-adjust:exact}}
</style>
)";

constexpr int kDaysPerWeek = 7;
constexpr int64_t kDailyBarsMax = 120;     // of more days, a bar is a week
constexpr std::size_t kManyVolumes = 100;  // of which fewer backups are listed
constexpr std::size_t kVolumesNamed = 12;  // by a problem
constexpr std::size_t kProblemsMax = 100;
constexpr int kBarTop = 20;  // of the drawing; a bar that is cut off reaches it
constexpr int kBarMax = 16;  // of a bar that is not cut off
constexpr char kNoBreakSpace[] = "\u00a0";

struct Mark {
  absl::string_view sign, begin, end;
};

Mark MarkOf(DayState day) {
  switch (day) {
    case DayState::kGood:
      return {"\u2022", "", ""};
    case DayState::kGoodFull:
      return {"F", "<u>", "</u>"};
    case DayState::kFailed:
      return {"\u00d7", "<b>", "</b>"};
    case DayState::kBroken:
      return {"D", "<b>", "</b>"};
    case DayState::kMissing:
      return {"o", "<i>", "</i>"};
    case DayState::kNotDue:
      return {"\u00b7", "<s>", "</s>"};
    case DayState::kNone:
      break;
  }
  return {kNoBreakSpace, "", ""};
}

std::string Moment(absl::Time time, absl::string_view format = "%-d %b %H:%M") {
  return absl::FormatTime(format, time, absl::UTCTimeZone());
}

std::string Ago(absl::Time time, absl::Time now) {
  const int64_t hours = std::max<int64_t>(0, (now - time) / absl::Hours(1));
  return hours < 48 ? absl::StrCat(hours, " h ago") : absl::StrCat(hours / 24, " days ago");
}

std::string BytesOr(const std::optional<int64_t>& bytes, absl::string_view otherwise) {
  return bytes.has_value() ? FormatBytes(*bytes) : std::string(otherwise);
}

class Page {
 public:
  explicit Page(const Report& report) : report_(report), summary_(Summarize(report)) {}

  std::string Render() &&;

 private:
  template <typename... Parts>
  void Add(const Parts&... parts) {
    absl::StrAppend(&out_, parts...);
  }

  std::string Link(std::size_t volume) const {
    return absl::StrCat("<a href=#v", volume, ">", EscapeHtml(summary_.volumes[volume].entry->name),
                        "</a>");
  }

  void AddProblems();

  // Days before the first one, which make whole weeks from Monday on.
  int Lead() const { return static_cast<int>(absl::GetWeekday(summary_.first_day)); }

  void AddCalendar();

  // Neighbours of one state share their tags; weeks end with a space, where lines may break.
  void AddDays(const std::vector<DayState>& days);
  void AddVolume(std::size_t at);
  void AddFacts(const VolumeView& view);

  // Bars of what each day, or week, needed. A full backup would make the others invisible: bars
  // that are higher than those without one are cut off.
  void AddChart(absl::string_view title, const VolumeView& view,
                std::optional<int64_t> BackupEntry::*member);
  void AddBars(const std::vector<int64_t>& bars, int64_t top);
  void AddTable(const VolumeEntry& entry);

  const Report& report_;
  const Summary summary_;
  std::string out_;
};

std::string Page::Render() && {
  const std::string headline = EscapeHtml(summary_.headline);
  Add(kHead, "<title>", headline, "</title><header><p class=k>Backups of ",
      EscapeHtml(report_.subject), ", ", FormatDay(report_.since), " to ",
      FormatDay(report_.made_at), ", made ", Moment(report_.made_at, "%H:%M"),
      " UTC</p><h1 class=", summary_.is_good ? "good>" : "bad>", headline, "</h1><ul>");
  for (const std::string& line : summary_.lines) {
    Add("<li>", EscapeHtml(line));
  }
  Add("</ul></header><main>");
  AddProblems();
  AddCalendar();
  Add("<section><h2>Volumes</h2><div class=g>\n");
  for (std::size_t i = 0; i < summary_.volumes.size(); ++i) {
    AddVolume(i);
  }
  Add("</div></section></main><footer>");
  for (const std::string& note : report_.notes) {
    Add("<p>", EscapeHtml(note));
  }
  Add("<p>Days and times are UTC. An audit reads a sample of the blocks that a list calls "
      "unchanged. Its odds are those of finding one wrong block in a hundred of them, wherever "
      "they lie. Gray bars are full backups, which are cut off.</footer></html>\n");
  return std::move(out_);
}

void Page::AddProblems() {
  if (summary_.problems.empty()) {
    return;
  }
  Add("<section><h2>What to do</h2><ol>");
  const std::size_t shown = std::min(summary_.problems.size(), kProblemsMax);
  for (const Problem& problem : absl::MakeConstSpan(summary_.problems).first(shown)) {
    const std::string first = Moment(problem.first, "%-d %b"),
                      last = Moment(problem.last, "%-d %b");
    Add("<li class=\"p p", static_cast<int>(problem.kind), "\"><h3>", EscapeHtml(problem.title),
        "</h3><p class=dim>",
        Counted(problem.backups, problem.kind == ProblemKind::kMissing ? "day" : "backup"), " of ",
        Counted(std::ssize(problem.volumes), "volume"), ", ", first,
        first == last ? "" : absl::StrCat(" to ", last), ": ");
    for (std::size_t i = 0; i < std::min(problem.volumes.size(), kVolumesNamed); ++i) {
      Add(i == 0 ? "" : ", ", Link(problem.volumes[i]));
    }
    if (problem.volumes.size() > kVolumesNamed) {
      Add(" and ", problem.volumes.size() - kVolumesNamed, " more");
    }
    Add("</p><p class=next><b>Next:</b> ", EscapeHtml(problem.next_step), "</p>");
  }
  Add("</ol>", shown == summary_.problems.size() ? "" : "<p>Further causes are in the JSON.",
      "</section>");
}

void Page::AddCalendar() {
  Add("<section><h2>Calendar</h2><p class=k><span class=c>\u2022</span>&nbsp;incremental &ensp; "
      "<span class=c><u>F</u></span>&nbsp;full &ensp; <span "
      "class=c><b>\u00d7</b></span>&nbsp;failed "
      "&ensp; <span class=c><i>o</i></span>&nbsp;missing &ensp; <span "
      "class=c><b>D</b></span>&nbsp;damaged "
      "&ensp; <span class=c><s>\u00b7</s></span>&nbsp;not&nbsp;due</p><div class=\"r h\"><a></a>"
      "<span class=n>good</span><p class=c>");
  for (int64_t day = -Lead(); day < summary_.days; day += kDaysPerWeek) {
    const std::string label =
        Moment(absl::FromCivil(summary_.first_day + day, absl::UTCTimeZone()), "%d\u00a0%b\u00a0");
    Add(label, " ");
  }
  Add("</p></div>\n");
  for (std::size_t i = 0; i < summary_.volumes.size(); ++i) {
    const VolumeView& view = summary_.volumes[i];
    Add("<div class=r>", Link(i), "<span class=n>", view.good, " of ",
        view.good + view.failed + view.broken + view.missing, "</span><p class=c>");
    AddDays(view.days);
    Add("</p></div>\n");
  }
  Add("</section>");
}

void Page::AddDays(const std::vector<DayState>& days) {
  Mark open = {};
  for (int day = 0; day < Lead(); ++day) {
    Add(kNoBreakSpace);
  }
  for (std::size_t day = 0; day < days.size(); ++day) {
    const Mark mark = MarkOf(days[day]);
    const bool begins_week =
        day > 0 && (day + static_cast<std::size_t>(Lead())) % kDaysPerWeek == 0;
    if (mark.begin != open.begin || begins_week) {
      Add(open.end, begins_week ? " " : "", mark.begin);
    }
    Add(mark.sign);
    open = mark;
  }
  Add(open.end);
}

void Page::AddVolume(std::size_t at) {
  const VolumeView& view = summary_.volumes[at];
  const VolumeEntry& entry = *view.entry;
  Add("<article class=v id=v", at, "><h3>", EscapeHtml(entry.name), "</h3><small>",
      EscapeHtml(entry.location), "</small>");
  if (view.is_behind) {
    Add("<p class=s>\u00d7 no good backup ",
        view.last_good == nullptr ? "" : "since " + FormatDay(view.last_good->at), "</p>");
  }
  Add("<dl>");
  AddFacts(view);
  Add("</dl>");
  AddChart("Read", view, &BackupEntry::read_bytes);
  AddChart("Changed", view, &BackupEntry::changed_bytes);
  AddChart("Stored", view, &BackupEntry::stored_bytes);
  AddTable(entry);
  Add("</article>\n");
}

void Page::AddFacts(const VolumeView& view) {
  const VolumeEntry& entry = *view.entry;
  if (const BackupEntry* const last = view.last_good; last != nullptr) {
    Add("<dt>Last good<dd>", Moment(last->at, "%-d %b %Y %H:%M"), ", ",
        Ago(last->at, report_.made_at), "<dt>Chain<dd>", EscapeHtml(last->mode), ", ",
        view.chain_length, " since ",
        view.chain_start == nullptr ? "before this report" : FormatDay(view.chain_start->at));
    Add(last->base.empty() ? "" : absl::StrCat(", base ", EscapeHtml(last->base)), "<dt>Size<dd>",
        FormatBytes(last->size_bytes));
  }
  Add("<dt>Verified<dd>", entry.verified_at.has_value()
                              ? absl::StrCat(FormatDay(*entry.verified_at), ", ",
                                             Ago(*entry.verified_at, report_.made_at))
                              : "not recorded");
  if (view.audit_detects.has_value()) {
    // Never rounded up: 100 % would be a promise.
    Add("<dt>Audit<dd>", FormatBytes(*view.last_good->audit_bytes), " read again; odds ",
        absl::StrFormat("%.1f", std::min(99.9, 100 * *view.audit_detects - 0.05)), " %");
  }
  if (entry.gone_at.has_value()) {
    Add("<dt>Gone<dd>the PVC, since ", FormatDay(*entry.gone_at));
  }
  if (!entry.finding.empty()) {
    Add("<dt>Found<dd>", EscapeHtml(entry.finding));
  }
}

void Page::AddChart(absl::string_view title, const VolumeView& view,
                    std::optional<int64_t> BackupEntry::*member) {
  const int64_t bar_days = summary_.days <= kDailyBarsMax ? 1 : kDaysPerWeek;
  std::vector<int64_t> bars(static_cast<std::size_t>((summary_.days - 1) / bar_days + 1));
  std::vector<bool> is_full(bars.size());
  int64_t known = 0, total = 0;
  for (const BackupEntry& backup : view.entry->backups) {
    if (const auto& value = backup.*member; value.has_value()) {
      const auto at = static_cast<std::size_t>(
          (absl::ToCivilDay(backup.at, absl::UTCTimeZone()) - summary_.first_day) / bar_days);
      bars[at] = std::min(bars[at] + *value, kBytesMax);
      is_full[at] = is_full[at] || backup.mode == "full";
      total = std::min(total + *value, kBytesMax);
      ++known;
    }
  }
  if (total == 0) {
    Add("<figure><figcaption><b>", title, "</b> ", known == 0 ? "not recorded" : "nothing",
        "</figcaption></figure>");
    return;
  }
  int64_t top = 0, highest = 0;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    top = std::max(top, is_full[i] ? 0 : bars[i]);
    highest = std::max(highest, bars[i]);
  }
  top = top == 0 ? std::max<int64_t>(highest, 1) : top;
  Add("<figure><figcaption><b>", title, "</b> ", FormatBytes(total), ", up to ", FormatBytes(top),
      bar_days == 1 ? " a day" : " a week");
  Add(highest > top ? absl::StrCat(" (full: ", FormatBytes(highest), ")") : "",
      "</figcaption><svg viewBox=\"0 0 ", bars.size(), " ", kBarTop,
      "\" preserveAspectRatio=none aria-hidden=true><path d=\"M0 ", kBarTop);
  AddBars(bars, top);
  Add("z\"/>");
  if (highest > top) {
    Add("<path class=x d=\"");
    for (std::size_t i = 0; i < bars.size(); ++i) {
      Add(bars[i] > top ? absl::StrCat("M", i, " 0h1v", kBarTop, "h-1") : "");
    }
    Add("\"/>");
  }
  Add("</svg></figure>");
}

void Page::AddBars(const std::vector<int64_t>& bars, int64_t top) {
  int64_t run = 0;
  int64_t height = -1;
  const auto end_run = [&] {
    if (run > 0) {
      Add("V", kBarTop - height, "h", run);
    }
  };
  for (const int64_t bar : bars) {
    const int64_t next =
        bar == 0 || bar > top
            ? 0
            : std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(bar) /
                                                        static_cast<double>(top) * kBarMax));
    if (next != height) {
      end_run();
      run = 0;
      height = next;
    }
    ++run;
  }
  end_run();
  Add("V", kBarTop);
}

void Page::AddTable(const VolumeEntry& entry) {
  const std::size_t rows_max = summary_.volumes.size() > kManyVolumes ? 5 : 14;
  const std::size_t rows = std::min(entry.backups.size(), rows_max);
  if (rows == 0) {
    return;
  }
  Add("<details><summary>Newest ", rows, " of ", entry.backups.size(),
      "</summary><table><tr><th>Backup<th>Mode<th>Changed<th>Read<th>Stored");
  for (std::size_t i = 1; i <= rows; ++i) {
    const BackupEntry& backup = entry.backups[entry.backups.size() - i];
    Add("<tr><td>", Moment(backup.at));
    if (backup.state != BackupState::kGood) {
      Add("<td colspan=4>", backup.state == BackupState::kFailed ? "\u00d7 failed" : "D damaged");
    } else {
      Add("<td>", backup.mode == "incremental" ? "incr" : EscapeHtml(backup.mode), "<td>",
          BytesOr(backup.changed_bytes, "?"), "<td>", BytesOr(backup.read_bytes, "?"), "<td>",
          BytesOr(backup.stored_bytes, "?"));
    }
    Add("<tr><td colspan=5>", EscapeHtml(backup.backup.empty() ? backup.snapshot : backup.backup));
    Add(backup.reason.empty()
            ? ""
            : absl::StrCat(" (", EscapeHtml(incremental::LabelOf(backup.reason)), ")"));
  }
  Add("</table></details>");
}

// U+061C, U+200E, U+200F, U+2028 to U+202E and U+2066 to U+2069, as UTF-8.
bool IsInvisible(absl::string_view sign) {
  return sign == "\u061c" || sign == "\u200e" || sign == "\u200f" ||
         (sign >= "\u2028" && sign <= "\u202e" && sign.size() == 3) ||
         (sign >= "\u2066" && sign <= "\u2069" && sign.size() == 3) ||
         (sign.size() == 2 && sign < "\u00a0");
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = Utf8Bytes(text);
    const absl::string_view sign = text.substr(0, std::max<std::size_t>(bytes, 1));
    text.remove_prefix(sign.size());
    const auto byte = static_cast<unsigned char>(sign[0]);
    if (bytes == 0 || byte < ' ' || byte == 0x7f || IsInvisible(sign)) {
      out += "\ufffd";
    } else if (sign == "&" || sign == "<" || sign == ">" || sign == "\"" || sign == "'") {
      absl::StrAppend(&out, "&#", static_cast<int>(byte), ";");
    } else {
      absl::StrAppend(&out, sign);
    }
  }
  return out;
}

std::string RenderPage(const Report& report) { return Page(report).Render(); }

}  // namespace csidelta::report
