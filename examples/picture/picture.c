// A picture from a prompt, in a program of one's own: picture MODEL PROMPT OUT.ppm
#include <stdio.h>

#include <graft/diffusion.h>

static graft_status write_ppm(const char *path, const graft_generate_result *result, graft_error *error) {
  const size_t n = 3 * (size_t)result->width * (size_t)result->height;
  FILE *file = fopen(path, "wb");
  if (file == NULL) return GRAFT_FAIL(error, GRAFT_E_IO, "%s cannot be written", path);
  fprintf(file, "P6\n%d %d\n255\n", result->width, result->height);
  const int is_written = fwrite(result->rgb, 1, n, file) == n;
  if (fclose(file) == 0 && is_written) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_IO, "%s cannot be written", path);
}

static graft_status draw(graft_context *context, char **words) {
  graft_pipeline *pipeline = NULL;
  GRAFT_TRY(graft_pipeline_open(context, words[0], NULL, &pipeline));
  graft_generate_request request = {.struct_size = sizeof request};
  graft_generate_request_init(pipeline, &request);  // the model's own size, steps and guidance
  request.prompt = words[1];
  graft_generate_result result = {.struct_size = sizeof result};
  graft_status status = graft_pipeline_generate(pipeline, &request, NULL, &result);
  if (status == GRAFT_OK) status = write_ppm(words[2], &result, graft_context_error_slot(context));
  if (status == GRAFT_OK) printf("%s: %dx%d\n", words[2], result.width, result.height);
  graft_generate_result_release(&result);
  graft_pipeline_close(pipeline);
  return status;
}

int main(int argc, char **argv) {
  graft_error error = {0};
  graft_context *context = NULL;
  if (argc != 4) {
    fprintf(stderr, "usage: picture MODEL PROMPT OUT.ppm\n");
    return 2;
  }
  if (graft_context_create(NULL, &error, &context) != GRAFT_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  const graft_status status = draw(context, argv + 1);
  if (status != GRAFT_OK) fprintf(stderr, "%s\n", graft_context_error(context)->message);
  graft_context_destroy(context);
  return status == GRAFT_OK ? 0 : 1;
}
