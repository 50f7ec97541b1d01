// chat_template.h — wrapping a prompt into the conversation that a text encoder was trained on.
//
// Checkpoints state their template as a Jinja program. graft has no interpreter for it: it recognises the ChatML family
// (Qwen2, Qwen3, which mark turns with <|im_start|> and <|im_end|>) and writes the one conversation that image models
// ask for — a single user turn and the beginning of the answer:
//   <|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n
// This is what Qwen3's template gives with add_generation_prompt and enable_thinking true (the default): no empty
// <think> block is inserted; that happens for false only. Z-Image uses exactly this, without a system turn.
// The prompt is inserted as it is; markers inside of it become special tokens, as in the reference.
#ifndef GRAFT_FORMATS_CHAT_TEMPLATE_H
#define GRAFT_FORMATS_CHAT_TEMPLATE_H

#include "graft/status.h"

// Checks that the tokenizer in |folder| has a template of the family above, in `chat_template` of tokenizer_config.json
// (a string, or a list of named ones, of which "default" counts) or in a file chat_template.jinja beside it.
// Errors: GRAFT_E_NOT_FOUND (no template), GRAFT_E_UNSUPPORTED (another family, or one that adds a system turn by
// itself), GRAFT_E_FORMAT, GRAFT_E_NO_MEMORY; naming the file.
GRAFT_NODISCARD graft_status graft_chat_template_check(const char *folder, graft_error *error);

// The conversation around |prompt| as a new string that the caller frees. Errors: GRAFT_E_NO_MEMORY. Thread-safe.
GRAFT_NODISCARD graft_status graft_chat_template_apply(const char *prompt, graft_error *error, char **out_text);

#endif
