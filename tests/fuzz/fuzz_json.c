#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "formats/weights.h"
#include "fuzz_folder.h"
#include "fuzz_targets.h"

static const char *const keys[] = {"n_layers", "rope.theta", "dim", "_class_name", "a", "weight_map"};

static void check(graft_status status, const graft_error *error) {
  if (status != GRAFT_OK && strstr(error->message, "fuzz") == NULL) abort();
}

static void read_member(const graft_json *json, const char *key) {
  graft_error error = {0};
  int64_t number = 0, numbers[3];
  double real = 0;
  bool flag = false;
  const char *text = NULL, *texts[3];
  size_t n = 0;
  check(graft_json_get_int(json, key, (graft_json_int_rule){1, 1024, false, 5}, &error, &number), &error);
  if (number < 0 || number > 1024) abort();
  check(graft_json_get_number(json, key, (graft_json_number_rule){0, 1, true, 0}, &error, &real), &error);
  if (!(real >= 0 && real <= 1)) abort();
  check(graft_json_get_bool(json, key, (graft_json_bool_rule){0}, &error, &flag), &error);
  check(graft_json_get_string(json, key, "otherwise", &error, &text), &error);
  const graft_json_list_rule rule = {.max_count = 3, .min = 0, .max = 9};
  check(graft_json_get_ints(json, key, rule, &error, numbers, &n), &error);
  check(graft_json_get_strings(json, key, rule, &error, texts, &n), &error);
  if (n > 3) abort();
}

static void follow_as_index(const uint8_t *data, size_t size) {
  static const char shard[] = "8\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}   x";
  graft_error error = {0};
  graft_weights *weights = NULL;
  temp_folder_write(fuzz_folder(), "s.safetensors", shard, sizeof shard - 1);
  temp_path path = temp_folder_write(fuzz_folder(), "fuzz.safetensors.index.json", data, size);
  graft_status status = graft_weights_open(path.text, GRAFT_SAFETENSORS_MAP, &error, &weights);
  if (status == GRAFT_OK && graft_weights_count(weights) > 0 && graft_weights_find(weights, "a") == NULL) abort();
  graft_weights_close(weights);
}

int fuzz_json(const uint8_t *data, size_t size) {
  graft_error error = {0};
  graft_json *json = NULL;
  graft_status status = graft_json_parse((const char *)data, size, "fuzz.json", &error, &json);
  check(status, &error);
  for (size_t i = 0; status == GRAFT_OK && i < sizeof keys / sizeof keys[0]; ++i) read_member(json, keys[i]);
  graft_json_close(json);
  if (status == GRAFT_OK) follow_as_index(data, size);
  return 0;
}
