// encore run CONFIG: completes prompts and streams the replies.
#include <spdlog/spdlog.h>

#include <cstdio>
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
#include "prompts.h"
#include "reply_printer.h"
#include "run_report.h"
#include "sampling_defaults.h"
#include "session.h"
#include "verbs.h"

namespace encore {
namespace {

struct RunFlags {
  ConfigFlags config;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::string system;
  bool chat = false;
  bool raw = false;
  bool parse_special = false;
  bool json = false;
  int32_t logprobs = -1;
};

// A prompt as token ids: as it is, or as the only message of a conversation.
Result<std::vector<int32_t>> encode(const RunFlags& flags, const Session& session,
                                    const ChatPrompt* chat, const std::string& text) {
  if (chat == nullptr) {
    ENCORE_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
    EncodeOptions options;
    options.parse_special = flags.parse_special;
    return tokenizer->encode(text, options);
  }
  std::vector<ChatMessage> messages;
  if (!flags.system.empty()) messages.push_back({"system", flags.system});
  messages.push_back({"user", text});
  return chat->encode(messages);
}

// What went wrong in the end, if anything did.
int exit_code(const Generation& generation) {
  if (!generation.engine_status.ok()) return report_error(generation.engine_status);
  int code = kExitOk;
  for (const Reply& reply : generation.replies) {
    if (reply.finish != FinishReason::kError) continue;
    code = report_error(internal_error("a request ended with an error: " + reply.message));
  }
  return generation.was_interrupted ? kExitInterrupted : code;
}

Result<int> run(const RunFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(const LoadedConfig loaded, flags.config.load());
  ENCORE_ASSIGN_OR_RETURN(const std::vector<std::string> prompts,
                          collect_prompts(flags.prompts, flags.prompt_file));
  catch_interrupts();
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(loaded));
  std::unique_ptr<ChatPrompt> chat;
  if (flags.chat) {
    ENCORE_ASSIGN_OR_RETURN(chat, ChatPrompt::open(*session));
  }
  DecodeOptions decode;
  decode.continues_text = !flags.chat;
  ENCORE_RETURN_IF_ERROR(session->start_engine(decode));

  std::vector<RequestOptions> requests;
  std::vector<std::vector<int32_t>> ids;
  std::vector<uint64_t> seeds;
  for (const std::string& prompt : prompts) {
    RequestOptions request;
    ENCORE_ASSIGN_OR_RETURN(request.prompt, encode(flags, *session, chat.get(), prompt));
    request.sampling = resolve_sampling(loaded, session->files().generation, draw_seed());
    request.sampling.num_logprobs = flags.logprobs;
    request.max_tokens = loaded.config.sampling.max_tokens;
    request.stop = loaded.config.sampling.stop;
    request.ignore_eos = loaded.config.sampling.ignore_eos;
    ids.push_back(request.prompt);
    seeds.push_back(request.sampling.seed);
    requests.push_back(std::move(request));
  }

  GenerationSink sink;
  ReplyPrinter printer(flags.json ? 0 : prompts.size());
  if (!flags.json) {
    sink.text = [&printer](size_t index, std::string_view text) { printer.text(index, text); };
    sink.finished = [&printer](size_t index) { printer.finished(index); };
  }
  ENCORE_ASSIGN_OR_RETURN(const Generation generation,
                          generate(session->engine(), std::move(requests), sink));
  if (flags.json) std::printf("%s\n", run_json(*session, generation, ids, seeds).c_str());
  for (const uint64_t seed : seeds) spdlog::debug("seed {}", seed);
  if (spdlog::should_log(spdlog::level::info)) {
    std::fprintf(stderr, "\n%s", timings_table(*session, generation).c_str());
  }
  const bool is_stuck = device_is_stuck(generation.engine_status);
  if (spdlog::should_log(spdlog::level::debug) && !is_stuck) {
    ENCORE_ASSIGN_OR_RETURN(const MemoryLedger ledger, session->ledger());
    std::fprintf(stderr, "\n%s", ledger_table(ledger).c_str());
  }
  const int code = exit_code(generation);
  if (is_stuck) end_process(code);
  return code;
}

int report_or(const Result<int>& result) {
  return result.ok() ? *result : report_error(result.status());
}

}  // namespace

void declare_run(CLI::App& app, VerbAction& action) {
  CLI::App* verb = app.add_subcommand("run", "Complete prompts and stream the replies");
  auto flags = std::make_shared<RunFlags>();
  flags->config.declare(*verb, ConfigFlags::File::kRequired);
  flags->config.declare_sampling(*verb);
  verb->add_option("-p,--prompt", flags->prompts, "A prompt; several make a batch")
      ->option_text("TEXT")
      ->allow_extra_args(false);
  verb->add_option("-f,--prompt-file", flags->prompt_file, "A file with a prompt; - is stdin")
      ->option_text("FILE");
  CLI::Option* chat =
      verb->add_flag("--chat", flags->chat, "The prompt is a message: apply the chat template");
  verb->add_flag("--raw", flags->raw, "The prompt is text to go on with (the default)")
      ->excludes(chat);
  verb->add_option("--system", flags->system, "System message for --chat")
      ->option_text("TEXT")
      ->needs(chat);
  verb->add_flag("--parse-special", flags->parse_special,
                 "Control tokens spelled in a raw prompt become those tokens");
  verb->add_flag("--json", flags->json, "One JSON object on stdout instead of text");
  verb->add_option("--logprobs", flags->logprobs,
                   "Log-probabilities of this many most probable tokens, with --json")
      ->option_text("N")
      ->check(CLI::Range(0, 20));
  verb->callback([flags, &action] { action = [flags] { return report_or(run(*flags)); }; });
}

}  // namespace encore
