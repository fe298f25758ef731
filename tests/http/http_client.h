// A client for tests: a socket that sends literal bytes and reads answers, whole or piece by piece.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace encore {

struct HttpAnswer {
  std::string status_line;  // "HTTP/1.1 200 OK"; empty: the connection ended before one was whole
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without chunks' frames
  bool whole = false;                          // the body ended as its framing says
};

class HttpClient {
 public:
  // Asserts that the connection is made. `receive_buffer_bytes` > 0 sets the socket's.
  explicit HttpClient(int32_t port, int receive_buffer_bytes = 0,
                      const std::string& address = "127.0.0.1");
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // False once the other end is gone.
  bool send(std::string_view bytes);

  // The next answer, past "100 Continue". `to_head`: the request was HEAD.
  HttpAnswer read_answer(bool to_head = false);
  // Exactly so many bytes, or less if the connection ends or 10 s pass.
  std::string read_bytes(size_t count);
  // Up to and with `end`; what came, if the connection ends or 10 s pass.
  std::string read_until(std::string_view end);
  // Everything until the other end is closed.
  std::string read_all();
  // The other end is closed, and sent nothing before. False after 10 s.
  bool closed_by_server();
  // The other end has reset the connection, which is no orderly end. False after 10 s.
  bool reset_by_server();
  // Something, or the end, is there to be read within `wait_ms`.
  bool readable(int wait_ms) const;

  void half_close();  // FIN: nothing more will be sent
  void close();       // FIN, or RST if something was left unread
  void reset();       // RST

 private:
  bool fill();  // one more read; false at the end

  int socket_ = -1;
  std::string buffer_;
};

}  // namespace encore
