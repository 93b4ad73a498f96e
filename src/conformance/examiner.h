#pragma once

#include "absl/status/status.h"
#include "base/call_context.h"
#include "conformance/exhibits.h"
#include "conformance/judgement.h"
#include "conformance/lister.h"

namespace csidelta::conformance {

// Asks one service everything that can be asked of the exhibits, and judges each answer. What a
// driver answers is never an error of this; only what ends ctx is, or an image that cannot be read.
absl::Status Examine(const CallContext& ctx, Lister& lister, const Exhibits& exhibits,
                     const JudgementSink& sink);

// What only a service with pages is asked.
absl::Status ExaminePages(const CallContext& ctx, PageLister& lister, DriverLink& link,
                          const Exhibits& exhibits, const JudgementSink& sink);

// The last question: the base of 1-2 has been deleted.
absl::Status ExamineDeletedBase(const CallContext& ctx, Lister& lister, const Exhibits& exhibits,
                                const JudgementSink& sink);

}  // namespace csidelta::conformance
