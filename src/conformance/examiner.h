#pragma once

#include "absl/status/status.h"
#include "base/call_context.h"
#include "conformance/check_result.h"
#include "conformance/driver_link.h"
#include "conformance/snapshot_fixtures.h"

namespace csidelta::conformance {

// Asks one service everything that can be asked of the fixtures, and judges each answer. What a
// driver answers is never an error of this; only what ends ctx is, or an image that cannot be read.
absl::Status Examine(const CallContext& ctx, Lister& lister, const SnapshotFixtures& fixtures,
                     const CheckResultSink& sink);

// What only a service with pages is asked.
absl::Status ExaminePages(const CallContext& ctx, PageLister& lister, DriverLink& link,
                          const SnapshotFixtures& fixtures, const CheckResultSink& sink);

// The last question: the base of 1-2 has been deleted.
absl::Status ExamineDeletedBase(const CallContext& ctx, Lister& lister,
                                const SnapshotFixtures& fixtures, const CheckResultSink& sink);

}  // namespace csidelta::conformance
