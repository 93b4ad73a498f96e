#pragma once

#include "objects/data_deletion.h"
#include "velero/data_reference.h"
#include "velero/data_upload.h"

namespace csidelta::datamover {

// The object to create for a DataUpload whose worker was given up before it said how it ended: it
// may store its snapshot yet, which nothing would refer to; with `worker_ended` it stores nothing
// any more, but may have. `reference` says where.
objects::DataDeletion MakeDeletionOfUnnamed(const velero::DataTransfer& upload,
                                            const velero::DataReference& reference,
                                            bool worker_ended);

}  // namespace csidelta::datamover
