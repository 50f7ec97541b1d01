// buffer.h — device memory with a margin before and after it, and what it should hold: a write next to the data, or
// into data that must not change, is seen.
#ifndef GRAFT_TESTING_BUFFER_H
#define GRAFT_TESTING_BUFFER_H

#include "graft/graft.h"

// Zero-initialised means empty.
typedef struct graft_testing_buffer {
  graft_device *device;
  size_t bytes, margin;
  char *memory;            // on the device, margins included
  unsigned char *content;  // on the host: what was uploaded, margins included
  unsigned char *result;   // on the host: what was downloaded
} graft_testing_buffer;

// Allocates |bytes| of data with margins of at least |alignment| bytes (a power of two). Errors: GRAFT_E_NO_MEMORY,
// what the device reports.
GRAFT_NODISCARD graft_status graft_testing_buffer_create(graft_device *device, size_t bytes, size_t alignment,
                                                         graft_error *error, graft_testing_buffer *out_buffer);
void graft_testing_buffer_destroy(graft_testing_buffer *buffer);

// The data, without margins: on the device, and in the two host copies.
char *graft_testing_buffer_address(const graft_testing_buffer *buffer);
unsigned char *graft_testing_buffer_content(const graft_testing_buffer *buffer);
const unsigned char *graft_testing_buffer_result(const graft_testing_buffer *buffer);

// Fills the host copy, margins included, with |poison|.
void graft_testing_buffer_poison(graft_testing_buffer *buffer, unsigned char poison);

// Copies the whole host copy to the device, or the device's memory into |result|.
GRAFT_NODISCARD graft_status graft_testing_buffer_upload(graft_testing_buffer *buffer, graft_error *error);
GRAFT_NODISCARD graft_status graft_testing_buffer_download(graft_testing_buffer *buffer, graft_error *error);

// Finds the first byte that differs from what was uploaded, in the margins only or everywhere. |*out_offset| counts
// from the start of the data. False when there is none.
bool graft_testing_buffer_damage(const graft_testing_buffer *buffer, bool in_margins_only, int64_t *out_offset);

// In builds with AddressSanitizer, makes any access to the margins of host-visible memory a report (or allows it
// again).
void graft_testing_buffer_forbid_margins(const graft_testing_buffer *buffer, bool is_forbidden);

#endif
