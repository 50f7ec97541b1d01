#include "tools/graft/peaks.h"

#include <stdio.h>
#include <string.h>

#include "graft/cpu.h"
#include "tools/graft/tool.h"

// Nothing where the processor has no such instructions.
static graft_status measure_products(graft_peak_kind kind, const graft_cpu_info *cpu, graft_error *error,
                                     graft_peak_flops *out_flops) {
  const graft_peak_loop *loop = graft_peak_loop_of(kind, cpu->features);
  *out_flops = (graft_peak_flops){.target = "none"};
  return loop == NULL ? GRAFT_OK : graft_peak_measure_flops(loop, cpu->n_threads, error, out_flops);
}

static graft_status measure_cpu(const graft_cpu_info *cpu, graft_error *error, tool_peaks *peaks) {
  peaks->kind = TOOL_PEAKS_CPU;
  GRAFT_TRY(measure_products(GRAFT_PEAK_F32, cpu, error, &peaks->flops));
  GRAFT_TRY(measure_products(GRAFT_PEAK_BF16, cpu, error, &peaks->bf16));
  GRAFT_TRY(measure_products(GRAFT_PEAK_I8, cpu, error, &peaks->i8));
  size_t beyond_caches = 8 * cpu->l3_bytes > (size_t)256 << 20 ? 8 * cpu->l3_bytes : (size_t)256 << 20;
  return graft_peak_measure_bandwidth(cpu->n_threads, beyond_caches, error, &peaks->bandwidth);
}

static graft_status measure_device(graft_device *device, graft_error *error, tool_peaks *peaks) {
  enum { SIDE = 8192 };
  const size_t copy_bytes = (size_t)1 << 30;
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(device, &info);
  snprintf(peaks->device, sizeof peaks->device, "%s", info.name);
  graft_status status = graft_device_peaks_measure(device, copy_bytes, SIDE, error, &peaks->at_best);
  if (status == GRAFT_E_UNSUPPORTED || status == GRAFT_E_NO_MEMORY) return GRAFT_OK;
  peaks->kind = TOOL_PEAKS_DEVICE;
  return status;
}

graft_status tool_peaks_measure(graft_context *context, graft_device *device, tool_peaks *out_peaks) {
  graft_error *error = graft_context_error_slot(context);
  const bool is_cpu = strcmp(graft_device_backend(device)->name, "cpu") == 0;
  tool_peaks peaks = {.kind = TOOL_PEAKS_NONE};
  GRAFT_TRY(is_cpu ? measure_cpu(graft_cpu_describe(device), error, &peaks) : measure_device(device, error, &peaks));
  *out_peaks = peaks;
  return GRAFT_OK;
}

double tool_peaks_gflops(const tool_peaks *peaks, graft_device_product type) {
  if (peaks->kind == TOOL_PEAKS_DEVICE) return 1e3 * peaks->at_best.teraops[type];
  if (peaks->kind != TOOL_PEAKS_CPU) return 0;
  return type == GRAFT_PRODUCT_I8 && peaks->i8.gflops > 0 ? peaks->i8.gflops : peaks->flops.gflops;
}

double tool_peaks_gbytes(const tool_peaks *peaks) {
  if (peaks->kind == TOOL_PEAKS_DEVICE) return peaks->at_best.copy_gbytes;
  return peaks->kind == TOOL_PEAKS_CPU ? peaks->bandwidth.read_gbytes : 0;
}

static void set_measured(json_t *json, const char *key, double value) {
  if (value > 0) json_object_set_new(json, key, json_real(value));
}

static json_t *describe_cpu(const tool_peaks *peaks) {
  json_t *json =
      json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "target", peaks->flops.target, "threads",
                peaks->flops.n_threads, "lanes", peaks->flops.n_lanes, "f32_gflops", peaks->flops.gflops, "clock_ghz",
                peaks->flops.clock_ghz, "ports", peaks->flops.n_ports, "utilisation", peaks->flops.utilisation,
                "read_gb_per_s", peaks->bandwidth.read_gbytes, "copy_gb_per_s", peaks->bandwidth.copy_gbytes);
  set_measured(json, "bf16_gflops", peaks->bf16.gflops);
  set_measured(json, "bf16_utilisation", peaks->bf16.utilisation);
  set_measured(json, "i8_gops", peaks->i8.gflops);
  set_measured(json, "i8_utilisation", peaks->i8.utilisation);
  return json;
}

json_t *tool_peaks_describe(const tool_peaks *peaks) {
  if (peaks->kind == TOOL_PEAKS_CPU) return describe_cpu(peaks);
  if (peaks->kind == TOOL_PEAKS_NONE) return json_object();
  json_t *json = json_pack("{s:s}", "device", peaks->device);
  set_measured(json, "copy_gb_per_s", peaks->at_best.copy_gbytes);
  set_measured(json, "clock_ghz", peaks->at_best.clock_ghz);
  for (int i = 0; i < GRAFT_N_PRODUCTS; ++i) {
    char key[32];
    snprintf(key, sizeof key, "%s_tops", graft_device_product_name((graft_device_product)i));
    set_measured(json, key, peaks->at_best.teraops[i]);
  }
  return json;
}

// Beside as many vectors of sums a clock as the processor seems to begin.
static void print_products(const char *name, const graft_peak_flops *flops) {
  if (flops->gflops <= 0) return;
  printf("%-18s %8.1f GOP/s     %s, %d thread%s at %.2f GHz: %.1f %% of %.0f x %d lanes a clock\n", name, flops->gflops,
         flops->target, flops->n_threads, tool_s((uint64_t)flops->n_threads), flops->clock_ghz,
         100 * flops->utilisation, flops->n_ports / flops->utilisation, flops->n_lanes);
}

static void print_cpu(const tool_peaks *peaks) {
  print_products("f32 multiply-add", &peaks->flops);
  print_products("bf16 products", &peaks->bf16);
  print_products("int8 products", &peaks->i8);
  printf("memory read        %8.1f GB/s\n", peaks->bandwidth.read_gbytes);
  printf("memory copy        %8.1f GB/s      read and written\n", peaks->bandwidth.copy_gbytes);
}

static void print_device(const graft_device_peaks *peaks) {
  printf("copies             %8.1f GB/s      read and written\n", peaks->copy_gbytes);
  for (int i = 0; i < GRAFT_N_PRODUCTS; ++i) {
    if (peaks->teraops[i] <= 0) continue;
    printf("%-8s products  %8.1f TOP/s\n", graft_device_product_name((graft_device_product)i), peaks->teraops[i]);
  }
  if (peaks->clock_ghz > 0) printf("clock              %8.2f GHz       behind bf16 products\n", peaks->clock_ghz);
}

void tool_peaks_print(const tool_peaks *peaks) {
  if (peaks->kind == TOOL_PEAKS_CPU) print_cpu(peaks);
  if (peaks->kind == TOOL_PEAKS_DEVICE) print_device(&peaks->at_best);
}
