#include "cli/conversation.h"

#include <cstdio>
#include <utility>

#include "text/chat_template.h"
#include "text/detokenizer.h"

namespace cairn::cli {

Result<ReplyText> reply_to(LocalSession& session,
                           const Json& messages,
                           const ReplyOptions& options) {
  const TextParts& text = session.text();
  if (!text.chat) {
    return Status::unsupported("the model has no chat template; give one with --template FILE");
  }
  TemplateInputs inputs;
  inputs.messages = messages;
  inputs.add_generation_prompt = true;
  inputs.now_unix = SystemClock().unix_seconds();
  CAIRN_ASSIGN_OR_RETURN(const std::string rendered, text.chat->render(inputs));

  GenerationRequest request;
  request.prompt = text.tokenizer->encode(rendered, false);
  request.sampling = default_sampling(session.generation_config());
  if (options.temperature) request.sampling.temperature = *options.temperature;
  request.sampling.seed = options.seed;
  request.stop_ids = session.stop_ids();
  if (options.max_tokens) request.max_tokens = static_cast<uint32_t>(*options.max_tokens);

  ReplyText reply;
  Detokenizer detokenizer(text.tokenizer, true);
  const auto show = [&](const std::string& piece) {
    reply.text += piece;
    if (options.stream) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    }
  };
  CAIRN_ASSIGN_OR_RETURN(reply.generation,
                         session.generate(std::move(request), [&](const GeneratedToken& token) {
                           if (!token.is_stop) show(detokenizer.append(token.id));
                           return true;
                         }));
  show(detokenizer.finish());
  return reply;
}

}  // namespace cairn::cli
