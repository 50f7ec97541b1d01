// peaks.h — what a device can do at best, for whoever measures kernels on it.
#ifndef GRAFT_TOOLS_GRAFT_PEAKS_H
#define GRAFT_TOOLS_GRAFT_PEAKS_H

#include <jansson.h>

#include "graft/graft.h"
#include "testing/device_peak.h"
#include "testing/peak.h"

typedef enum tool_peaks_kind {
  TOOL_PEAKS_NONE,  // the device's are not known
  TOOL_PEAKS_CPU,
  TOOL_PEAKS_DEVICE
} tool_peaks_kind;

typedef struct tool_peaks {
  tool_peaks_kind kind;
  // Of the CPU, with all of the context's threads.
  graft_peak_flops flops;
  graft_peak_flops bf16, i8;  // gflops 0 where the processor has no instructions for them
  graft_peak_bandwidth bandwidth;
  // Of another device.
  char device[96];
  graft_device_peaks at_best;
} tool_peaks;

// Measures |device|, which takes a few seconds. One that cannot copy by itself, or has no room for it, has no peaks.
GRAFT_NODISCARD graft_status tool_peaks_measure(graft_context *context, graft_device *device, tool_peaks *out_peaks);

// Operations a second, in thousands of millions, of products of |type|; of the CPU's floats those of f32, in which its
// kernels compute. 0: not known.
double tool_peaks_gflops(const tool_peaks *peaks, graft_device_product type);

// Bytes a second, in thousands of millions: what the CPU reads, or what a device copies, read and written. 0: not
// known.
double tool_peaks_gbytes(const tool_peaks *peaks);

// As JSON, without what was not measured; an empty object where nothing was.
json_t *tool_peaks_describe(const tool_peaks *peaks);

// As a table.
void tool_peaks_print(const tool_peaks *peaks);

#endif
