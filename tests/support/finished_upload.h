#pragma once

#include <string>

namespace csidelta::support {

// A DataUpload that was completed, as an API server returns it: 4.6 KB, two fifths of it who wrote
// which field. As JSON text, in which NUMBER stands for which one it is, VOLUME and NIGHT for what
// it moved and when.
std::string FinishedUpload();

// The `number`th of a cluster that keeps them for so many nights, made of that text.
std::string FinishedUpload(const std::string& form, int number, int nights);

}  // namespace csidelta::support
