// encore chat CONFIG: a conversation on the terminal, or piped, a line a message.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "chat_prompt.h"
#include "config_flags.h"
#include "end_process.h"
#include "exit_code.h"
#include "generate.h"
#include "interrupt.h"
#include "logging.h"
#include "progress.h"
#include "sampling_defaults.h"
#include "session.h"
#include "verbs.h"

namespace encore {
namespace {

struct ChatFlags {
  ConfigFlags config;
  std::string system;
};

class Conversation {
 public:
  Conversation(const ChatFlags& flags, Session& session, const ChatPrompt& prompt)
      : flags_(flags), session_(session), prompt_(prompt) {
    reset();
  }

  void reset() {
    messages_.clear();
    if (!flags_.system.empty()) messages_.push_back({"system", flags_.system});
  }

  // Adds the user's message, streams the reply to stdout and adds it.
  // Errors: of the template or of the request; the message is then forgotten and the conversation
  // goes on. kInternal or the device's if the engine has failed: it does not.
  Status answer(const std::string& text) {
    messages_.push_back({"user", text});
    Result<Generation> generation = reply();
    if (!generation.ok()) {
      messages_.pop_back();
      return generation.status();
    }
    const Reply& reply = generation->replies[0];
    std::printf("\n");
    messages_.push_back({"assistant", reply.text});
    const Speed speed = measure_speed(generation->replies);
    spdlog::debug("{} prompt tokens, {} tokens, {:.1f} tokens/s", reply.prompt_tokens,
                  reply.tokens.size(), speed.generation_tokens_per_s);
    if (reply.finish == FinishReason::kLength) {
      spdlog::warn("the reply was cut at its limit of tokens; see sampling.max_tokens");
    }
    engine_status_ = generation->engine_status;
    if (reply.finish == FinishReason::kError) return internal_error(reply.message);
    return generation->engine_status;
  }

  const Status& engine_status() const { return engine_status_; }

 private:
  Result<Generation> reply() {
    const LoadedConfig& loaded = session_.loaded();
    RequestOptions request;
    ENCORE_ASSIGN_OR_RETURN(request.prompt, prompt_.encode(messages_));
    request.sampling = resolve_sampling(loaded, session_.files().generation, draw_seed());
    request.max_tokens = loaded.config.sampling.max_tokens;
    request.stop = loaded.config.sampling.stop;
    request.ignore_eos = loaded.config.sampling.ignore_eos;
    GenerationSink sink;
    sink.text = [](size_t, std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    };
    std::vector<RequestOptions> requests;
    requests.push_back(std::move(request));
    return generate(session_.engine(), std::move(requests), sink);
  }

  const ChatFlags& flags_;
  Session& session_;
  const ChatPrompt& prompt_;
  std::vector<ChatMessage> messages_;
  Status engine_status_;
};

// The next line; false at the end of input or when interrupted.
bool read_line(bool terminal, std::string& line) {
  if (terminal) {
    std::fputs("> ", stdout);
    std::fflush(stdout);
  }
  return static_cast<bool>(std::getline(std::cin, line)) && !interrupted();
}

Result<int> converse(Conversation& conversation) {
  const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  if (terminal) std::puts("/reset forgets the conversation, /exit leaves, Ctrl-C stops a reply.");
  bool failed = false;
  for (std::string line; read_line(terminal, line);) {
    if (line == "/exit") break;
    if (line.empty()) continue;
    if (line == "/reset") {
      conversation.reset();
      continue;
    }
    const Status status = conversation.answer(line);
    if (!status.ok()) {
      report_error(status);
      failed = true;
    }
    if (!conversation.engine_status().ok()) break;
    if (interrupted() && !terminal) return kExitInterrupted;
    clear_interrupt();
  }
  if (interrupted()) return kExitInterrupted;
  // A person has seen the errors; a pipe learns of them here.
  return failed && !terminal ? kExitFailure : kExitOk;
}

Result<int> chat(const ChatFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(const LoadedConfig loaded, flags.config.load());
  catch_interrupts();
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(loaded));
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<ChatPrompt> prompt, ChatPrompt::open(*session));
  ENCORE_RETURN_IF_ERROR(session->start_engine(DecodeOptions()));
  Conversation conversation(flags, *session, *prompt);
  Result<int> code = converse(conversation);
  if (code.ok() && device_is_stuck(conversation.engine_status())) end_process(*code);
  return code;
}

}  // namespace

void declare_chat(CLI::App& app, VerbAction& action) {
  CLI::App* verb = app.add_subcommand("chat", "Talk with the model, a line a message");
  auto flags = std::make_shared<ChatFlags>();
  flags->config.declare(*verb, ConfigFlags::File::kRequired);
  flags->config.declare_sampling(*verb);
  verb->add_option("--system", flags->system, "System message")->option_text("TEXT");
  verb->callback([flags, &action] {
    action = [flags] {
      const Result<int> result = chat(*flags);
      return result.ok() ? *result : report_error(result.status());
    };
  });
}

}  // namespace encore
