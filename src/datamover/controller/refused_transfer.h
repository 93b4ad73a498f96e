#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "datamover/transfer_object.h"

// A transfer whose Pod, or what that needs, the API server refuses to make: by a quota, a policy, a
// webhook, or because a class does not exist.
//
//   admitted --refused--> refused-since, refusal; the admission is given back: awaiting-at
//      ^                                |
//      |                                |  a pause
//      +-- queued for an admission <----+
//
// until the Pod is made, which ends the refusal, or the time to prepare is over. That begins with
// the admission before the first refusal, and goes on while the transfer is queued again. All of it
// stands in annotations of the object.
namespace csidelta::datamover {

// Whether it was refused, and no Pod was made since.
bool IsRefused(const TransferObject& transfer);

// It was refused with these words. `since`: when it was admitted, which counts at the first time.
void RecordRefusal(absl::string_view words, absl::Time since, TransferObject& transfer);

// Its Pod is made.
void EndRefusal(TransferObject& transfer);

// When one that gave its admission back tries again: 2 s after the first admission, the later the
// longer it is refused, and half a minute at most. InfinitePast for others.
absl::Time TriesAgainAt(const TransferObject& transfer);

// What it waits for, and what was refused before.
std::string WithRefusal(absl::string_view waits_for, const TransferObject& transfer);

}  // namespace csidelta::datamover
