#include "run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace encore {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(fs::temp_directory_path() / ("encore_host_test_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

const fs::path& temporary_folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

[[noreturn]] void become_encore(const std::vector<std::string>& arguments,
                                const std::vector<std::string>& environment, int in, int out,
                                int err) {
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> argv = {const_cast<char*>("encore")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(ENCORE_BINARY, argv.data());
  _exit(127);
}

// Appends what can be read; false at the end of the stream.
bool drain(int fd, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t count = read(fd, buffer.data(), buffer.size());
  if (count <= 0) return false;
  text.append(buffer.data(), static_cast<size_t>(count));
  return true;
}

}  // namespace

CommandResult run_encore(const std::vector<std::string>& arguments, const std::string& input,
                         const std::vector<std::string>& environment,
                         bool interrupt_at_first_output) {
  CommandResult result;
  // Input through a file: a pipe could fill while nobody reads it.
  const std::string input_path = write_temporary("stdin", input);
  const int in = open(input_path.c_str(), O_RDONLY | O_CLOEXEC);
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (in < 0 || pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) {
    return result;
  }
  const pid_t child = fork();
  if (child == 0) become_encore(arguments, environment, in, out[1], err[1]);
  close(in);
  close(out[1]);
  close(err[1]);
  std::array<pollfd, 2> streams = {{{out[0], POLLIN, 0}, {err[0], POLLIN, 0}}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    if (poll(streams.data(), streams.size(), -1) < 0) break;
    if (streams[0].revents != 0 && !drain(out[0], result.out)) streams[0].fd = -1;
    if (streams[1].revents != 0 && !drain(err[0], result.err)) streams[1].fd = -1;
    if (interrupt_at_first_output && !result.out.empty()) {
      kill(child, SIGINT);
      interrupt_at_first_output = false;
    }
  }
  close(out[0]);
  close(err[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string write_temporary(const std::string& name, const std::string& text) {
  std::string path = (temporary_folder() / name).string();
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string make_folder(const std::string& name) {
  const fs::path path = temporary_folder() / name;
  fs::remove_all(path);
  fs::create_directories(path);
  fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec);
  return path.string();
}

std::optional<std::string> smollm2_path() {
  const char* folder = std::getenv("ENCORE_TEST_MODELS");
  if (folder == nullptr) return {};
  const fs::path path = fs::path(folder) / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!fs::exists(path)) return {};
  return path.string();
}

}  // namespace encore
