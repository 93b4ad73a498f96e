#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "report/report.h"

namespace csidelta::report {

// The report as one HTML page without scripts, which loads nothing: what is wrong and what to do,
// a calendar of all volumes, then each volume. Texts of the report are escaped. REQUIRES a report
// after Normalize(). Pure.
std::string RenderPage(const Report& report);

// `text` as content of an element or an attribute. Control characters and changes of the writing
// direction become U+FFFD, as do bytes that are not UTF-8.
std::string EscapeHtml(absl::string_view text);

}  // namespace csidelta::report
