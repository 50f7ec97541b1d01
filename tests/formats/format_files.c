#include "format_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

temp_path write_safetensors_raw(const temp_folder *folder, const char *name, uint64_t length, const char *header,
                                size_t n_data) {
  size_t n = strlen(header);
  char *bytes = calloc(1, 8 + n + n_data);
  assert_non_null(bytes);
  for (int i = 0; i < 8; ++i) bytes[i] = (char)(unsigned char)(length >> (8 * i));
  memcpy(bytes + 8, header, n);
  temp_path path = temp_folder_write(folder, name, bytes, 8 + n + n_data);
  free(bytes);
  return path;
}

temp_path write_safetensors(const temp_folder *folder, const char *name, const char *header, const void *data,
                            size_t n_data) {
  temp_path path = write_safetensors_raw(folder, name, strlen(header), header, n_data);
  if (data == NULL || n_data == 0) return path;
  FILE *file = fopen(path.text, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, (long)(8 + strlen(header)), SEEK_SET), 0);
  assert_int_equal(fwrite(data, 1, n_data, file), n_data);
  assert_int_equal(fclose(file), 0);
  return path;
}

void assert_refused(graft_status actual, const graft_error *error, graft_status status, const char *first,
                    const char *second) {
  if (actual == status && error->status == status && strstr(error->message, first) != NULL &&
      strstr(error->message, second) != NULL)
    return;
  fail_msg("expected \"%s\" with \"%s\" and \"%s\", got \"%s\": %s", graft_status_name(status), first, second,
           graft_status_name(actual), error->message);
}

void assert_ok(graft_status actual, const graft_error *error) {
  if (actual != GRAFT_OK) fail_msg("%s: %s", graft_status_name(actual), error->message);
}

// GPT-2's spelling, written down independently of the code under test.
static int spell_byte(int byte, char *target) {
  int printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  int codepoint = byte;
  if (!printable) {
    codepoint = 256;
    for (int b = 0; b < byte; ++b) codepoint += !((b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE);
  }
  if (codepoint == '"' || codepoint == '\\') return sprintf(target, "\\%c", codepoint);
  if (codepoint < 128) return sprintf(target, "%c", codepoint);
  return sprintf(target, "%c%c", 0xC0 | codepoint >> 6, 0x80 | (codepoint & 0x3F));
}

char *make_vocabulary(void) {
  char *text = malloc(8192), *at = text;
  assert_non_null(text);
  for (int byte = 0; byte < 256; ++byte) {
    at += sprintf(at, "%s\"", byte == 0 ? "" : ",");
    at += spell_byte(byte, at);
    at += sprintf(at, "\":%d", byte);
  }
  sprintf(at, ",\"he\":256,\"ll\":257,\"hell\":258,\"Ġa\":259");
  return text;
}

static const char *or_default(const char *given, const char *otherwise) {
  return given != NULL ? given : otherwise;
}

char *make_tokenizer_json(tokenizer_parts parts) {
  static const char default_pre_tokenizer[] =
      "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
      "\" ?\\\\p{L}+|\\\\s+|.\"},\"behavior\":\"Isolated\",\"invert\":false},"
      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}";
  char *vocabulary = make_vocabulary(), *text = NULL;
  int n = asprintf(
      &text,
      "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,"
      "\"model\":{\"type\":\"BPE\",\"vocab\":{%s%s},\"merges\":[%s]%s}}",
      or_default(parts.added_tokens, "{\"id\":300,\"content\":\"<|end|>\",\"special\":true}"),
      or_default(parts.normalizer, "{\"type\":\"NFC\"}"), or_default(parts.pre_tokenizer, default_pre_tokenizer),
      or_default(parts.post_processor, "null"), vocabulary, or_default(parts.extra_vocabulary, ""),
      or_default(parts.merges, "\"h e\",[\"l\",\"l\"],\"he ll\",\"Ġ a\""), or_default(parts.extra_model, ""));
  assert_true(n > 0);
  free(vocabulary);
  return text;
}
