#include "tests/support/instances.h"

template class std::basic_string<char>;
template class nlohmann::basic_json<>;
template class std::vector<std::string>;
template class std::vector<nlohmann::json>;
template class std::map<std::string, std::string>;
template class std::map<std::string, nlohmann::json, std::less<>>;
