// device_peak_internal.h — what the files of device_peak.h share.
#ifndef GRAFT_TESTING_DEVICE_PEAK_INTERNAL_H
#define GRAFT_TESTING_DEVICE_PEAK_INTERNAL_H

#include "testing/device_peak.h"

// Seconds on a clock that only goes forward.
double graft_device_peak_now(void);

// Fills teraops and clock_ghz where |device| is one whose products can be measured.
GRAFT_NODISCARD graft_status graft_device_peak_products(graft_device *device, int64_t side, graft_error *error,
                                                        graft_device_peaks *peaks);

#endif
