// Products of devices in builds that know none with such a library.
#include "testing/device_peak_internal.h"

graft_status graft_device_peak_products(graft_device *device, int64_t side, graft_error *error,
                                        graft_device_peaks *peaks) {
  (void)device, (void)side, (void)error, (void)peaks;
  return GRAFT_OK;
}
