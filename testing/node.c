#include "testing/node.h"

#include <stdlib.h>
#include <string.h>

#include "testing/buffer.h"

struct graft_testing_node {
  const graft_testing_example *example;
  graft_testing_setup setup;
  graft_node_info info;
  graft_tensor_desc descs[GRAFT_CASE_MAX_INPUTS];
  size_t offsets[GRAFT_CASE_MAX_INPUTS];
  int64_t places[GRAFT_CASE_MAX_INPUTS];  // in output 0, of those that are placed
  const graft_tensor_desc *inputs[GRAFT_CASE_MAX_INPUTS];
  const graft_tensor_desc *outputs[GRAFT_MAX_OUTPUTS];
  graft_prepared prepared;
  bool is_prepared;
  uint32_t packed_inputs;  // bit i: the kernel sees its packed copy
  graft_testing_buffer input_buffers[GRAFT_CASE_MAX_INPUTS];
  graft_testing_buffer output_buffers[GRAFT_MAX_OUTPUTS];
  graft_testing_buffer packed_buffers[GRAFT_MAX_PACKED];
  graft_testing_buffer workspace;
  graft_recording *recording;
};

static bool is_given(const graft_testing_example *example, uint32_t input) {
  return (example->present >> input & 1u) != 0;
}

static const graft_backend_def *backend_of(const graft_testing_node *node) {
  return graft_device_backend(node->setup.device);
}

static void *state_of(const graft_testing_node *node) {
  return graft_device_state(node->setup.device);
}

static bool is_placed(const graft_testing_node *node, uint32_t input) {
  return (node->setup.placed >> input & 1u) != 0;
}

// The input whose buffer input |i| uses.
static uint32_t owner_of(const graft_testing_node *node, uint32_t i) {
  const uint32_t *shared = node->example->form.shared;
  return i == shared[1] ? shared[0] : i;
}

// Lays the inputs out; false with a reason where the setup does not apply to this example.
static bool describe_inputs(graft_testing_node *node, graft_reason *why) {
  const graft_testing_example *example = node->example;
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if (!is_given(example, i)) continue;
    graft_testing_layout layout = node->setup.layouts[i];
    if (!graft_testing_layout_apply(layout, example->form.repeated[i], &example->inputs[i], &node->descs[i],
                                    &node->offsets[i])) {
      return graft_refuse(why, "input %u cannot be laid out as: %s", i, graft_testing_layout_name(layout));
    }
    node->inputs[i] = &node->descs[i];
  }
  graft_tensor_desc outputs[GRAFT_MAX_OUTPUTS];
  graft_error error = {0};
  if (graft_testing_infer(example, node->descs, &error, outputs) != GRAFT_OK) {
    return graft_refuse(why, "inference: %.100s", error.message);
  }
  return true;
}

static graft_status check_inference(const graft_testing_node *node, graft_error *error) {
  graft_tensor_desc outputs[GRAFT_MAX_OUTPUTS];
  GRAFT_TRY(graft_testing_infer(node->example, node->descs, error, outputs));
  for (uint32_t i = 0; i < node->example->op->n_outputs; ++i) {
    if (graft_tensor_desc_same_layout(&outputs[i], &node->example->outputs[i])) continue;
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "inference describes output %u differently when inputs are strided", i);
  }
  return GRAFT_OK;
}

static graft_status find_places(graft_testing_node *node, graft_error *error) {
  const graft_testing_example *example = node->example;
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if (is_placed(node, i) &&
        !example->op->part(example->attrs, node->inputs, example->n_inputs, node->outputs[0], i, &node->places[i])) {
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "input %u is no part of output 0", i);
    }
  }
  return GRAFT_OK;
}

static graft_status prepare(graft_testing_node *node, graft_error *error) {
  const graft_kernel_def *kernel = node->setup.kernel;
  if (kernel->prepare == NULL) return GRAFT_OK;
  GRAFT_TRY(kernel->prepare(&node->info, error, &node->prepared));
  node->is_prepared = true;
  if (node->prepared.n_packed > GRAFT_MAX_PACKED) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "prepare asks for %u packed inputs", node->prepared.n_packed);
  }
  for (uint32_t p = 0; p < node->prepared.n_packed; ++p) {
    const graft_packed_input *packed = &node->prepared.packed[p];
    bool is_constant = packed->input < 32 && (node->setup.constants >> packed->input & 1u) != 0;
    if (!is_constant || packed->bytes == 0 || packed->layout[0] == 0 || kernel->pack == NULL) {
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "prepare asks to pack input %u, which cannot be packed", packed->input);
    }
    node->packed_inputs |= 1u << packed->input;
  }
  return GRAFT_OK;
}

// Packs over two different fillings: a byte that differs was not written, so equal sources would not pack alike.
static graft_status pack(graft_testing_node *node, uint32_t p, graft_error *error) {
  const graft_packed_input *packed = &node->prepared.packed[p];
  graft_testing_buffer *buffer = &node->packed_buffers[p];
  const void *source = node->example->values[packed->input];
  GRAFT_TRY(graft_testing_buffer_create(node->setup.device, packed->bytes, packed->alignment, error, buffer));
  size_t whole = buffer->bytes + 2 * buffer->margin;
  unsigned char *memory = aligned_alloc(4096, (whole + 4095) / 4096 * 4096);
  if (memory == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to pack input %u", packed->input);
  graft_status status = GRAFT_OK;
  for (int pass = 0; pass < 2 && status == GRAFT_OK; ++pass) {
    memset(memory, pass == 0 ? 0x00 : 0xff, whole);
    status =
        node->setup.kernel->pack(&node->info, node->prepared.state, packed->input, source, memory + buffer->margin);
    if (pass == 0) memcpy(buffer->content, memory, whole);
  }
  memcpy(buffer->result, memory, whole);
  free(memory);
  if (status != GRAFT_OK) return GRAFT_FAIL(error, status, "packing input %u failed", packed->input);
  memset(buffer->content, 0xff, buffer->margin);
  memset(buffer->content + buffer->margin + buffer->bytes, 0xff, buffer->margin);
  int64_t at = 0;
  if (graft_testing_buffer_damage(buffer, false, &at)) {
    return GRAFT_FAIL(error, GRAFT_E_DEVICE, "packing input %u: byte %lld of %zu depends on what was there before",
                      packed->input, (long long)at, packed->bytes);
  }
  return GRAFT_OK;
}

static graft_status allocate(graft_testing_node *node, graft_error *error) {
  graft_device *device = node->setup.device;
  const graft_testing_example *example = node->example;
  for (uint32_t p = 0; p < node->prepared.n_packed; ++p) GRAFT_TRY(pack(node, p, error));
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if (!is_given(example, i) || (node->packed_inputs >> i & 1u) != 0 || owner_of(node, i) != i) continue;
    if (is_placed(node, i)) continue;
    size_t bytes = node->offsets[i] + graft_tensor_desc_bytes(&node->descs[i]);
    GRAFT_TRY(graft_testing_buffer_create(device, bytes, 64, error, &node->input_buffers[i]));
  }
  for (uint32_t i = node->setup.in_place >= 0 ? 1 : 0; i < example->op->n_outputs; ++i) {
    size_t bytes = graft_tensor_desc_bytes(node->outputs[i]);
    GRAFT_TRY(graft_testing_buffer_create(device, bytes, 64, error, &node->output_buffers[i]));
  }
  if (node->prepared.workspace_bytes == 0) return GRAFT_OK;
  size_t alignment = node->prepared.workspace_alignment != 0 ? node->prepared.workspace_alignment : 64;
  return graft_testing_buffer_create(device, node->prepared.workspace_bytes, alignment, error, &node->workspace);
}

static char *input_address(const graft_testing_node *node, uint32_t i) {
  for (uint32_t p = 0; p < node->prepared.n_packed; ++p) {
    if (node->prepared.packed[p].input == i) return graft_testing_buffer_address(&node->packed_buffers[p]);
  }
  const uint32_t owner = owner_of(node, i);
  if (is_placed(node, owner)) return graft_testing_buffer_address(&node->output_buffers[0]) + node->places[owner];
  return graft_testing_buffer_address(&node->input_buffers[owner]) + node->offsets[i];
}

static graft_status encode(graft_testing_node *node, graft_error *error) {
  void *inputs[GRAFT_CASE_MAX_INPUTS] = {NULL}, *outputs[GRAFT_MAX_OUTPUTS] = {NULL};
  const graft_testing_example *example = node->example;
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if (is_given(example, i)) inputs[i] = input_address(node, i);
  }
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) {
    bool is_taken_over = i == 0 && node->setup.in_place >= 0;
    outputs[i] = is_taken_over ? inputs[node->setup.in_place] : graft_testing_buffer_address(&node->output_buffers[i]);
  }
  graft_encode_args args = {.struct_size = sizeof args,
                            .node = &node->info,
                            .state = node->prepared.state,
                            .inputs = inputs,
                            .outputs = outputs,
                            .error = error};
  if (node->workspace.memory != NULL) args.workspace = graft_testing_buffer_address(&node->workspace);
  const graft_backend_def *backend = backend_of(node);
  GRAFT_TRY(backend->record_begin(state_of(node), 1, error, &node->recording));
  GRAFT_TRY(node->setup.kernel->encode(backend->step_begin(node->recording, 0), &args));
  return backend->record_end(node->recording, error);
}

static graft_status build(graft_testing_node *node, graft_error *error) {
  GRAFT_TRY(check_inference(node, error));
  GRAFT_TRY(find_places(node, error));
  GRAFT_TRY(prepare(node, error));
  GRAFT_TRY(allocate(node, error));
  return encode(node, error);
}

graft_status graft_testing_node_create(const graft_testing_example *example, const graft_testing_setup *setup,
                                       graft_error *error, graft_reason *out_reason, graft_testing_outcome *out_outcome,
                                       graft_testing_node **out_node) {
  graft_testing_node *node = calloc(1, sizeof *node);
  if (node == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a test node");
  node->example = example;
  node->setup = *setup;
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) node->outputs[i] = &example->outputs[i];
  node->prepared.struct_size = sizeof node->prepared;
  node->info = (graft_node_info){.struct_size = sizeof node->info,
                                 .op = example->op,
                                 .attrs = example->attrs,
                                 .n_inputs = example->n_inputs,
                                 .n_outputs = example->op->n_outputs,
                                 .inputs = node->inputs,
                                 .outputs = node->outputs,
                                 .constant_inputs = setup->constants,
                                 .device = setup->device};
  *out_outcome = GRAFT_TESTING_READY;
  if (!describe_inputs(node, out_reason)) {
    *out_outcome = GRAFT_TESTING_NOT_APPLICABLE;
  } else if (setup->kernel->supports != NULL && !setup->kernel->supports(&node->info, out_reason)) {
    *out_outcome = GRAFT_TESTING_REFUSED;
  }
  graft_status status = *out_outcome == GRAFT_TESTING_READY ? build(node, error) : GRAFT_OK;
  if (status != GRAFT_OK || *out_outcome != GRAFT_TESTING_READY) {
    graft_testing_node_destroy(node);
    node = NULL;
  }
  *out_node = node;
  return status;
}

void graft_testing_node_destroy(graft_testing_node *node) {
  if (node == NULL) return;
  if (node->recording != NULL) backend_of(node)->record_destroy(node->recording);
  if (node->is_prepared && node->setup.kernel->destroy != NULL) node->setup.kernel->destroy(node->prepared.state);
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) graft_testing_buffer_destroy(&node->input_buffers[i]);
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) graft_testing_buffer_destroy(&node->output_buffers[i]);
  for (uint32_t i = 0; i < GRAFT_MAX_PACKED; ++i) graft_testing_buffer_destroy(&node->packed_buffers[i]);
  graft_testing_buffer_destroy(&node->workspace);
  free(node);
}

static void fill_places(graft_testing_node *node) {
  for (uint32_t i = 0; i < node->example->n_inputs; ++i) {
    if (!is_placed(node, i)) continue;
    memcpy(graft_testing_buffer_content(&node->output_buffers[0]) + node->places[i], node->example->values[i],
           graft_tensor_desc_bytes(&node->descs[i]));
  }
}

static graft_status upload_all(graft_testing_node *node, unsigned char poison, graft_error *error) {
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) {
    graft_testing_buffer *buffer = &node->input_buffers[i];
    if (buffer->memory == NULL) continue;
    graft_testing_buffer_poison(buffer, poison);
    graft_testing_scatter(&node->descs[i], node->example->values[i],
                          graft_testing_buffer_content(buffer) + node->offsets[i]);
    GRAFT_TRY(graft_testing_buffer_upload(buffer, error));
    graft_testing_buffer_forbid_margins(buffer, true);
  }
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) {
    if (node->output_buffers[i].memory == NULL) continue;
    graft_testing_buffer_poison(&node->output_buffers[i], poison);
    if (i == 0) fill_places(node);
    GRAFT_TRY(graft_testing_buffer_upload(&node->output_buffers[i], error));
  }
  for (uint32_t i = 0; i < node->prepared.n_packed; ++i) {
    GRAFT_TRY(graft_testing_buffer_upload(&node->packed_buffers[i], error));
  }
  if (node->workspace.memory == NULL) return GRAFT_OK;
  graft_testing_buffer_poison(&node->workspace, poison);
  return graft_testing_buffer_upload(&node->workspace, error);
}

static graft_status check_buffer(graft_testing_buffer *buffer, const char *what, uint32_t index, bool may_change,
                                 graft_error *error) {
  if (buffer->memory == NULL) return GRAFT_OK;
  GRAFT_TRY(graft_testing_buffer_download(buffer, error));
  int64_t at = 0;
  if (!graft_testing_buffer_damage(buffer, may_change, &at)) return GRAFT_OK;
  bool is_outside = at < 0 || at >= (int64_t)buffer->bytes;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "%s %s %u of %zu bytes was written at byte %lld",
                    is_outside ? "memory beside" : "the read-only", what, index, buffer->bytes, (long long)at);
}

static void allow_margins(const graft_testing_node *node) {
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) {
    if (node->input_buffers[i].memory != NULL) {
      graft_testing_buffer_forbid_margins(&node->input_buffers[i], false);
    }
  }
}

static graft_status check_all(graft_testing_node *node, graft_error *error) {
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) {
    bool is_taken_over = (int32_t)i == node->setup.in_place;
    GRAFT_TRY(check_buffer(&node->input_buffers[i], "input", i, is_taken_over, error));
  }
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) {
    GRAFT_TRY(check_buffer(&node->output_buffers[i], "output", i, true, error));
  }
  for (uint32_t i = 0; i < GRAFT_MAX_PACKED; ++i) {
    GRAFT_TRY(check_buffer(&node->packed_buffers[i], "packed constant", i, false, error));
  }
  return check_buffer(&node->workspace, "workspace", 0, true, error);
}

graft_status graft_testing_node_run(graft_testing_node *node, unsigned char poison, const graft_run_control *control,
                                    graft_error *error) {
  graft_run_control none = {.struct_size = sizeof none};
  graft_status status = upload_all(node, poison, error);
  if (status == GRAFT_OK) {
    status = backend_of(node)->run(node->recording, 0, 1, control != NULL ? control : &none, error);
  }
  allow_margins(node);
  GRAFT_TRY(status);
  return check_all(node, error);
}

const void *graft_testing_node_output(const graft_testing_node *node, uint32_t index) {
  if (index == 0 && node->setup.in_place >= 0) {
    return graft_testing_buffer_result(&node->input_buffers[node->setup.in_place]) +
           node->offsets[node->setup.in_place];
  }
  return graft_testing_buffer_result(&node->output_buffers[index]);
}
