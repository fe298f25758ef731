#include "http/listen.h"

#include <boost/asio/ip/v6_only.hpp>
#include <utility>

namespace encore {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kMaxPort = 65535;

error_code listen_at(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (error) return error;
  // A restart must not wait for the old connections' TIME_WAIT. It does not let two servers share.
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address().is_v6() && endpoint.address().is_unspecified()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) acceptor.non_blocking(true, error);
  return error;
}

std::string remedy(error_code error) {
  if (error == asio::error::address_in_use) {
    return "; stop the process that has it, or set server.port to another (0: any free one)";
  }
  if (error == asio::error::access_denied) {
    return "; ports below 1024 need a privilege: set server.port to a higher one";
  }
  return "; set server.host to an address of this machine (0.0.0.0 or ::, all of them)";
}

}  // namespace

std::string address_and_port(const std::string& host, int32_t port) {
  std::string text = host.find(':') == std::string::npos ? host : "[" + host + "]";
  text += ':';
  text += std::to_string(port);
  return text;
}

Result<tcp::acceptor> listen(asio::io_context& io, const std::string& host, int32_t port) {
  if (port < 0 || port > kMaxPort) {
    return invalid_argument("server.port is " + std::to_string(port) +
                            "; it must be in 0 to 65535 (0: any free one)");
  }
  if (host.empty()) {
    return invalid_argument("server.host is empty; 127.0.0.1 serves this machine, 0.0.0.0 all");
  }
  tcp::resolver resolver(io);
  error_code error;
  const auto found = resolver.resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) {
    return invalid_argument("server.host '" + host + "' is no address: " + error.message() +
                            "; 127.0.0.1 serves this machine, 0.0.0.0 all");
  }
  for (const auto& entry : found) {
    tcp::acceptor acceptor(io);
    error = listen_at(acceptor, entry.endpoint());
    if (!error) return acceptor;
  }
  return unavailable("cannot listen at " + address_and_port(host, port) + ": " + error.message() +
                     remedy(error));
}

}  // namespace encore
