// device_peak.h — what a device can do at best: copies, products of matrices, and its clock meanwhile.
#ifndef GRAFT_TESTING_DEVICE_PEAK_H
#define GRAFT_TESTING_DEVICE_PEAK_H

#include "graft/device.h"

typedef enum graft_device_product {
  GRAFT_PRODUCT_F32,
  GRAFT_PRODUCT_BF16,
  GRAFT_PRODUCT_F16,
  GRAFT_PRODUCT_F8,  // E4M3, to bf16
  GRAFT_PRODUCT_I8,  // to int32
  GRAFT_N_PRODUCTS
} graft_device_product;

// "f32", "bf16", "f16", "f8_e4m3", "i8". Static storage. Thread-safe.
const char *graft_device_product_name(graft_device_product product);

typedef struct graft_device_peaks {
  double copy_gbytes;                // a second, read and written
  double teraops[GRAFT_N_PRODUCTS];  // a second, additions and products; 0: not available
  double clock_ghz;                  // right behind the products; 0: not known
} graft_device_peaks;

// Copies within |device|'s memory, and on CUDA devices products of square matrices of random numbers by the vendor's
// library where it is installed, |side| rows each (8192 keep a large card busy). Needs room for |copy_bytes| twice.
// Best of several. Errors: GRAFT_E_UNSUPPORTED (a device without asynchronous copies), GRAFT_E_NO_MEMORY, what the
// device reports.
GRAFT_NODISCARD graft_status graft_device_peaks_measure(graft_device *device, size_t copy_bytes, int64_t side,
                                                        graft_error *error, graft_device_peaks *out_peaks);

#endif
