// Whole pictures in int8 against f32: 32 fixed prompts and seeds. With a file name as argument, a contact sheet of the
// first ones is written there: f32, int8 with rotation, and their difference eight times enlarged.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/png.h"
#include "golden.h"
#include "picture_error.h"
#include "prompts.h"

enum { SIDE = 256, BYTES = 3 * SIDE * SIDE, N_STEPS = 20, SHOWN = 5, THUMBNAIL = 64, N_ROWS = 3 };

typedef struct drawing {
  uint8_t rgb[BYTES];
  float latents[16 * SIDE * SIDE / 64];
} drawing;

static graft_status keep_latents(void *user, const char *name, const graft_tensor_desc *desc, const void *data) {
  if (strcmp(name, "latents") == 0) memcpy(((drawing *)user)->latents, data, graft_tensor_desc_bytes(desc));
  return GRAFT_OK;
}

static void draw(const golden *g, graft_pipeline *pipeline, int prompt, drawing *out) {
  const uint64_t seed = (uint64_t)prompt;
  graft_generate_request request = {.struct_size = sizeof request};
  graft_generate_request_init(pipeline, &request);
  request.prompt = quality_prompts[prompt];
  request.seeds = &seed;
  request.n_steps = N_STEPS;
  request.width = request.height = SIDE;
  request.guidance = 4;
  graft_generate_result result = {.struct_size = sizeof result};
  const graft_generate_callbacks callbacks = {.struct_size = sizeof callbacks, .user = out, .on_tensor = keep_latents};
  golden_check(g, graft_pipeline_generate(pipeline, &request, &callbacks, &result));
  memcpy(out->rgb, result.rgb, BYTES);
  graft_generate_result_release(&result);
}

// Sums over prompts.
typedef struct score {
  double psnr, worst_psnr, ssim, latents;
} score;

static void add_score(score *s, const drawing *got, const drawing *want) {
  const picture a = {got->rgb, SIDE, SIDE}, b = {want->rgb, SIDE, SIDE};
  const double psnr = picture_psnr(&a, &b);
  s->psnr += psnr;
  s->ssim += picture_ssim(&a, &b);
  s->latents += golden_error(got->latents, want->latents, sizeof got->latents / sizeof(float));
  if (s->worst_psnr == 0 || psnr < s->worst_psnr) s->worst_psnr = psnr;
}

static void print_score(const char *name, const score *s) {
  print_message("    %-16s PSNR %.2f dB, least %.2f; SSIM %.5f; latents %.5f\n", name, s->psnr / QUALITY_N_PROMPTS,
                s->worst_psnr, s->ssim / QUALITY_N_PROMPTS, s->latents / QUALITY_N_PROMPTS);
}

static const char *sheet_path;
static uint8_t sheet[3 * SHOWN * THUMBNAIL * N_ROWS * THUMBNAIL];

// One colour of a thumbnail's pixel: the mean of what it covers.
static uint8_t shrink(const uint8_t *rgb, int x, int y, int colour) {
  enum { FACTOR = SIDE / THUMBNAIL };
  int sum = 0;
  for (int i = 0; i < FACTOR; ++i) {
    for (int j = 0; j < FACTOR; ++j) sum += rgb[3 * ((y * FACTOR + i) * SIDE + x * FACTOR + j) + colour];
  }
  return (uint8_t)(sum / (FACTOR * FACTOR));
}

static void add_to_sheet(int column, int row, const uint8_t *rgb) {
  for (int y = 0; y < THUMBNAIL; ++y) {
    for (int x = 0; x < THUMBNAIL; ++x) {
      uint8_t *pixel = sheet + 3 * ((row * THUMBNAIL + y) * SHOWN * THUMBNAIL + column * THUMBNAIL + x);
      for (int colour = 0; colour < 3; ++colour) pixel[colour] = shrink(rgb, x, y, colour);
    }
  }
}

static void show(int prompt, const drawing *exact, const drawing *quantized) {
  static uint8_t difference[BYTES];
  if (!sheet_path || prompt >= SHOWN) return;
  for (int i = 0; i < BYTES; ++i) {
    const int enlarged = 8 * abs((int)exact->rgb[i] - (int)quantized->rgb[i]);
    difference[i] = (uint8_t)(enlarged > 255 ? 255 : enlarged);
  }
  add_to_sheet(prompt, 0, exact->rgb);
  add_to_sheet(prompt, 1, quantized->rgb);
  add_to_sheet(prompt, 2, difference);
}

static void write_sheet(void) {
  const graft_png_image image = {
      .width = SHOWN * THUMBNAIL, .height = N_ROWS * THUMBNAIL, .row_bytes = 3 * SHOWN * THUMBNAIL, .pixels = sheet};
  graft_error error = {0};
  if (sheet_path && graft_png_write(sheet_path, &image, NULL, 0, &error) != GRAFT_OK) fail_msg("%s", error.message);
}

static graft_pipeline *open_pipeline(const golden *g, graft_weight_type type) {
  graft_pipeline *pipeline = NULL;
  const graft_pipeline_options options = {.struct_size = sizeof options, .type = type};
  golden_check(g, graft_pipeline_open(g->context, GRAFT_GOLDEN_MODEL, &options, &pipeline));
  return pipeline;
}

static void int8_pictures_are_close(void **state) {
  (void)state;
  static drawing exact, rotated, plain;
  golden g = golden_open();
  graft_pipeline *f32 = open_pipeline(&g, GRAFT_WEIGHT_F32);
  graft_pipeline *convrot = open_pipeline(&g, GRAFT_WEIGHT_INT8_CONVROT);
  graft_pipeline *int8 = open_pipeline(&g, GRAFT_WEIGHT_INT8);
  score with = {0}, without = {0};
  for (int i = 0; i < QUALITY_N_PROMPTS; ++i) {
    const double before = with.psnr;
    draw(&g, f32, i, &exact);
    draw(&g, convrot, i, &rotated);
    draw(&g, int8, i, &plain);
    add_score(&with, &rotated, &exact);
    add_score(&without, &plain, &exact);
    show(i, &exact, &rotated);
    print_message("    %-50s %.2f dB\n", quality_prompts[i], with.psnr - before);
  }
  graft_pipeline_close(int8);
  graft_pipeline_close(convrot);
  graft_pipeline_close(f32);
  golden_close(&g);
  write_sheet();
  print_score("int8_convrot", &with);
  print_score("int8", &without);
  assert_true(with.psnr / QUALITY_N_PROMPTS >= 39.5);
  assert_true(with.worst_psnr >= 31);
  assert_true(with.ssim / QUALITY_N_PROMPTS >= 0.995);
  assert_true(with.psnr > without.psnr && with.ssim > without.ssim && with.latents < without.latents);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(int8_pictures_are_close)};
  if (argc > 1) sheet_path = argv[1];
  return cmocka_run_group_tests_name("quality.pictures", tests, NULL, NULL);
}
