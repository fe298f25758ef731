// Where a server is.
#pragma once

#include <string>

#include "encore/status.h"

namespace encore {

struct ServerUrl {
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string path;  // in front of "/v1/...": empty, or "/prefix"

  std::string authority() const;  // "127.0.0.1:8000", "[::1]:8000"
  std::string text() const;       // "http://127.0.0.1:8000/prefix"
};

// Reads "http://HOST[:PORT][/PREFIX]"; a trailing "/" or "/v1" is dropped, as clients' base URLs
// have it.
// Errors: kInvalidArgument for https and whatever is no such URL.
Result<ServerUrl> parse_server_url(const std::string& url);

}  // namespace encore
