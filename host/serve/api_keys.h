// Who may use the API.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "encore/config.h"
#include "encore/status.h"

namespace encore {

// The configured keys and those of the key file, one a line; empty lines and what surrounds a key
// are left out.
// Errors: kInvalidArgument for a file that cannot be read, and for keys that no header could carry:
// empty, over 1,000 bytes, or with anything but printable ASCII. No message shows a key.
Result<std::vector<std::string>> load_api_keys(const ServerConfig& config);

// Whether `authorization`, the header's value, is "Bearer KEY" with one of `keys`; true if there
// are none. The time it takes does not depend on where a wrong key differs.
bool is_authorized(std::string_view authorization, const std::vector<std::string>& keys);

}  // namespace encore
