// transfer.h — bytes between two devices, or a device and the host, begun now and waited for later.
//
//   graft_transfer_begin(from, to, bytes, &error, &transfer);
//   …                                                         // other work
//   graft_transfer_wait(transfer, &error);                    // the bytes are there
//   graft_transfer_release(transfer);
#ifndef GRAFT_TRANSFER_H
#define GRAFT_TRANSFER_H

#include "graft/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_transfer graft_transfer;

// Memory of |device|, or of the host where it is NULL. Frozen.
typedef struct graft_transfer_end {
  graft_device *device;
  void *address;
} graft_transfer_end;

// Begins to copy |bytes| bytes and returns at once where the devices have streams. Between two devices they go through
// staging memory of the host that the transfer owns. Both ranges stay valid until the transfer is released.
// Errors: GRAFT_E_NO_MEMORY, GRAFT_E_DEVICE. |error| may be NULL.
GRAFT_API GRAFT_NODISCARD graft_status graft_transfer_begin(graft_transfer_end from, graft_transfer_end to,
                                                            size_t bytes, graft_error *error,
                                                            graft_transfer **out_transfer);

// Waits until the bytes have arrived. Errors: GRAFT_E_DEVICE. Once it has succeeded, it returns at once.
GRAFT_API GRAFT_NODISCARD graft_status graft_transfer_wait(graft_transfer *transfer, graft_error *error);

// Synchronises the devices on both sides, and only then gives back what the transfer holds: that an event is over does
// not say that nobody looks at staging memory any more. A transfer that was not waited for may or may not arrive.
GRAFT_API void graft_transfer_release(graft_transfer *transfer);

#ifdef __cplusplus
}
#endif

#endif
