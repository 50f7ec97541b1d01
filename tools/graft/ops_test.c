// graft ops test — every kernel of every matching operator against its reference, those of plug-ins included.
#include <stdio.h>
#include <stdlib.h>

#include "testing/conformance.h"
#include "tools/graft/ops.h"

// The tests open contexts of their own, with other numbers of threads and with guarded memory.
static const graft_extension **list_extensions(const graft_context *context, uint32_t *out_count) {
  *out_count = graft_context_n_extensions(context);
  const graft_extension **extensions = calloc((size_t)*out_count + 1, sizeof *extensions);
  for (uint32_t i = 0; extensions != NULL && i < *out_count; ++i) extensions[i] = graft_context_extension(context, i);
  return extensions;
}

static int report(const tool_ops_wishes *wishes, const graft_conformance_report *found) {
  printf("seed %llu: %u operator%s, %u kernel%s (%u more skipped), %llu run%s,\n", (unsigned long long)wishes->seed,
         found->n_ops, tool_s(found->n_ops), found->n_kernels, tool_s(found->n_kernels), found->n_skipped_kernels,
         (unsigned long long)found->n_runs, tool_s(found->n_runs));
  printf("%llu use%s refused, worst %.2f of the bound, %llu failure%s in %u kernel%s\n",
         (unsigned long long)found->n_refused, tool_s(found->n_refused), found->worst,
         (unsigned long long)found->n_failures, tool_s(found->n_failures), found->n_failed_kernels,
         tool_s(found->n_failed_kernels));
  return tool_finish_output(found->n_failures > 0 ? TOOL_FAILED : TOOL_OK);
}

int tool_ops_test(const graft_context *context, const tool_ops_wishes *wishes) {
  uint32_t n = 0;
  const graft_extension **extensions = list_extensions(context, &n);
  if (extensions == NULL) {
    fprintf(stderr, "graft: no memory to list %u extensions\n", n);
    return TOOL_FAILED;
  }
  const graft_conformance_options options = {.struct_size = sizeof options,
                                             .extensions = extensions,
                                             .n_extensions = n,
                                             .op = wishes->op,
                                             .kernel = wishes->kernel,
                                             .case_name = wishes->case_name,
                                             .seed = wishes->seed,
                                             .is_quick = wishes->is_quick,
                                             .device = wishes->device,
                                             .cpu_target = graft_context_backend_config(context)->cpu_target,
                                             .writer = tool_stdout_writer()};
  graft_error error = {0};
  graft_conformance_report found;
  graft_status status = graft_conformance_run(&options, &error, &found);
  free(extensions);
  return status == GRAFT_OK ? report(wishes, &found) : tool_report(&error);
}
