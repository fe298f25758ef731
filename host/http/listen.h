// Taking a port.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

#include "encore/status.h"

namespace encore {

// "127.0.0.1:8000", "[::1]:8000", "localhost:8000".
std::string address_and_port(const std::string& host, int32_t port);

// Listens at the first address of `host` that will have it. "::" takes IPv4 as well. From now on
// connections queue; nobody else gets the port.
// Errors: as for HttpServer::bind.
Result<boost::asio::ip::tcp::acceptor> listen(boost::asio::io_context& io, const std::string& host,
                                              int32_t port);

}  // namespace encore
