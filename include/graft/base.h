// base.h — what every graft header relies on: exact-width types, export and must-check marks.
//
// Rules that hold for the whole public interface, so that single functions need not repeat them:
//  - Out parameters come last, are named `out_x` and are written only on success.
//  - `release`, `destroy` and `close` accept NULL and return nothing.
//  - `create` and `open` give the caller ownership; accessors borrow from the object they are asked of.
//  - An object is used by one thread at a time unless its header says "thread-safe".
//  - Strings are UTF-8. Shapes are outermost first, as PyTorch and safetensors print them. Strides and sizes are bytes.
//  - Structs begin with `struct_size`, which whoever makes one sets to sizeof: the application also in those that graft
//    fills, graft in those that it hands to callbacks. Members are only appended. A reader takes members beyond the
//    maker's size as zero, a writer writes none there, so that old code runs against a newer library and the other way
//    round (versioned.h). Elements of an array lie the first one's struct_size apart.
//  - Structs marked "Frozen" have no struct_size: they stay as they are while GRAFT_ABI_VERSION does.
#ifndef GRAFT_BASE_H
#define GRAFT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(GRAFT_BUILDING)
#define GRAFT_API __attribute__((visibility("default")))
#else
#define GRAFT_API
#endif

#define GRAFT_NODISCARD __attribute__((warn_unused_result))
#define GRAFT_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))

// Version of the binary interface. A plug-in states the one it was built against; a library refuses a newer one.
#define GRAFT_ABI_VERSION 1

// Version of the library as text, for example "0.1.0". Static storage. Thread-safe.
#ifdef __cplusplus
extern "C" {
#endif
GRAFT_API const char *graft_version(void);
#ifdef __cplusplus
}
#endif

#endif
