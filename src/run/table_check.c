#include "src/run/table_check.h"

#include <string.h>

#include "src/base/text.h"
#include "src/graph/attrs.h"
#include "src/graph/convert.h"

#define REFUSE(...) return GRAFT_FAIL(error, GRAFT_E_INVALID, __VA_ARGS__)

enum {
  KNOWN_TRAITS = GRAFT_OP_PURE | GRAFT_OP_VIEW | GRAFT_OP_ELEMENTWISE | GRAFT_OP_COPY | GRAFT_OP_CAST |
                 GRAFT_OP_COMMUTATIVE | GRAFT_OP_OPAQUE_EFFECT
};

// Length of the run of letters, digits and underscores that |text| begins with.
static size_t word_length(const char *text) {
  return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

static bool is_word(const char *text) {
  return text != NULL && text[0] != '\0' && text[word_length(text)] == '\0' &&
         strlen(text) < sizeof((graft_error *)0)->kernel;
}

// Words joined by dots, of which there are at least |n_least|; |*out_last| is the last one.
static bool is_dotted(const char *text, int n_least, const char **out_last) {
  if (text == NULL || strlen(text) >= sizeof((graft_error *)0)->op) return false;
  int n_words = 0;
  for (const char *word = text;; ++n_words) {
    size_t n = word_length(word);
    if (n == 0) return false;
    *out_last = word;
    word += n;
    if (*word == '\0') break;
    if (*word++ != '.') return false;
  }
  return n_words + 1 >= n_least;
}

static bool is_op_name(const char *name) {
  const char *version;
  if (!is_dotted(name, 3, &version) || version[0] != 'v') return false;
  size_t digits = strspn(version + 1, "0123456789");
  return digits > 0 && version[1] != '0' && version[1 + digits] == '\0';
}

static const char *shown(const char *name) {
  return name == NULL ? "(null)" : name;
}

graft_status graft_check_extension(const graft_extension *extension, graft_error *error) {
  const char *last;
  if (!is_dotted(extension->name, 1, &last))
    REFUSE("\"%s\" is no name for an extension: words of letters, digits and _, joined by dots, 47 bytes at most",
           shown(extension->name));
  if (!is_word(extension->vendor))
    REFUSE("\"%s\" is no vendor's name: letters, digits and _", shown(extension->vendor));
  return GRAFT_OK;
}

static bool lies_inside(uint32_t offset, size_t bytes, size_t alignment, const graft_op_def *op) {
  return offset % alignment == 0 && offset <= op->attrs_bytes && op->attrs_bytes - offset >= bytes;
}

static graft_status check_attr(const graft_op_def *op, uint32_t index, graft_error *error) {
  const graft_attr_def *attr = &op->attrs[index];
  if (!is_word(attr->name)) REFUSE("attribute %u of %s has no proper name", (unsigned)index, op->name);
  for (uint32_t i = 0; i < index; ++i) {
    if (strcmp(op->attrs[i].name, attr->name) == 0) REFUSE("%s has two attributes %s", op->name, attr->name);
  }
  if ((unsigned)attr->type > GRAFT_ATTR_I64S)
    REFUSE("attribute %s of %s has the unknown type %d", attr->name, op->name, (int)attr->type);
  if (attr->type == GRAFT_ATTR_I64S && (attr->max_count < 1 || attr->max_count > 1024))
    REFUSE("attribute %s of %s: max_count is %u; it must be 1 … 1024", attr->name, op->name, (unsigned)attr->max_count);
  size_t bytes = graft_attr_bytes(attr);
  size_t alignment = attr->type == GRAFT_ATTR_I64S ? sizeof(int64_t) : bytes;
  if (!lies_inside(attr->offset, bytes, alignment, op) ||
      (attr->type == GRAFT_ATTR_I64S && !lies_inside(attr->count_offset, sizeof(int32_t), sizeof(int32_t), op)))
    REFUSE("attribute %s of %s does not lie, aligned, inside the %u bytes of attrs_bytes", attr->name, op->name,
           (unsigned)op->attrs_bytes);
  if (attr->type == GRAFT_ATTR_ENUM) {
    if (attr->choices == NULL || attr->choices[0] == NULL)
      REFUSE("attribute %s of %s has no choices", attr->name, op->name);
    if (attr->default_i64 < 0 || attr->default_i64 >= graft_attr_n_choices(attr))
      REFUSE("the default of attribute %s of %s is none of its choices", attr->name, op->name);
  }
  if (attr->type == GRAFT_ATTR_DTYPE && attr->default_i64 != 0 && graft_dtype_of_code(attr->default_i64) == NULL)
    REFUSE("the default of attribute %s of %s is no graft_dtype_code", attr->name, op->name);
  return GRAFT_OK;
}

static graft_status check_case(const graft_op_def *op, const graft_op_case *example, graft_error *error) {
  if (example->name == NULL || example->name[0] == '\0') REFUSE("a case of %s has no name", op->name);
  if (example->n_inputs < op->min_inputs || example->n_inputs > op->max_inputs ||
      example->n_inputs > GRAFT_CASE_MAX_INPUTS)
    REFUSE("case %s of %s has %u input%s", example->name, op->name, (unsigned)example->n_inputs,
           graft_text_s(example->n_inputs));
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    const graft_case_input *input = &example->inputs[i];
    if (input->dtype == NULL && !(op->optional_inputs >> i & 1))
      REFUSE("case %s of %s leaves out input %u, which is not optional", example->name, op->name, (unsigned)i);
    if (input->rank < 0 || input->rank > GRAFT_MAX_RANK)
      REFUSE("case %s of %s: input %u has rank %d", example->name, op->name, (unsigned)i, (int)input->rank);
  }
  return GRAFT_OK;
}

static graft_status check_arity(const graft_op_def *op, graft_error *error) {
  if (op->min_inputs > op->max_inputs || op->max_inputs > GRAFT_MAX_INPUTS)
    REFUSE("%s takes %u to %u inputs; the limit is %d", op->name, (unsigned)op->min_inputs, (unsigned)op->max_inputs,
           GRAFT_MAX_INPUTS);
  if (op->n_outputs < 1 || op->n_outputs > GRAFT_MAX_OUTPUTS)
    REFUSE("%s has %u outputs; it must be 1 … %d", op->name, (unsigned)op->n_outputs, GRAFT_MAX_OUTPUTS);
  if ((uint64_t)op->optional_inputs >> op->max_inputs != 0)
    REFUSE("optional_inputs of %s names an input beyond its last", op->name);
  return GRAFT_OK;
}

static graft_status check_traits(const graft_op_def *op, graft_error *error) {
  if (op->traits & ~(uint32_t)KNOWN_TRAITS) REFUSE("%s has unknown traits: %#x", op->name, (unsigned)op->traits);
  if ((op->traits & GRAFT_OP_PURE) && (op->traits & GRAFT_OP_OPAQUE_EFFECT))
    REFUSE("%s cannot both be pure and have an opaque effect", op->name);
  bool has_first = op->min_inputs >= 1 && !(op->optional_inputs & 1);
  if ((op->traits & GRAFT_OP_VIEW) && (op->n_outputs != 1 || !has_first))
    REFUSE("%s is a view: it must have one output and a first input that is always there", op->name);
  if ((op->traits & GRAFT_OP_COMMUTATIVE) && (op->min_inputs < 2 || (op->optional_inputs & 3)))
    REFUSE("%s is commutative: its first two inputs must always be there", op->name);
  return GRAFT_OK;
}

graft_status graft_check_op(const graft_op_def *op, graft_error *error) {
  if (!is_op_name(op->name))
    REFUSE("\"%s\" is no name for an operator: it must read vendor.name.v1, 47 bytes at most", shown(op->name));
  GRAFT_TRY(check_arity(op, error));
  GRAFT_TRY(check_traits(op, error));
  if (op->infer == NULL) REFUSE("%s has no infer", op->name);
  if (op->reference == NULL && op->decompose == NULL && !(op->traits & GRAFT_OP_VIEW))
    REFUSE("%s has neither a reference nor a decomposition, so nothing says what it computes", op->name);
  if (op->attrs_bytes > GRAFT_MAX_ATTRS_BYTES)
    REFUSE("the attributes of %s have %u bytes; the limit is %d: what is large is an input", op->name,
           (unsigned)op->attrs_bytes, GRAFT_MAX_ATTRS_BYTES);
  if (op->n_attrs > 0 && op->attrs == NULL) REFUSE("attrs of %s is NULL, n_attrs is not 0", op->name);
  for (uint32_t i = 0; i < op->n_attrs; ++i) GRAFT_TRY(check_attr(op, i, error));
  if (op->n_cases > 0 && op->cases == NULL) REFUSE("cases of %s is NULL, n_cases is not 0", op->name);
  for (uint32_t i = 0; i < op->n_cases; ++i) GRAFT_TRY(check_case(op, &op->cases[i], error));
  return GRAFT_OK;
}

graft_status graft_check_kernel(const graft_kernel_def *kernel, graft_error *error) {
  if (!is_word(kernel->name))
    REFUSE("\"%s\" is no name for a kernel: letters, digits and _, 63 bytes at most", shown(kernel->name));
  if (kernel->op != NULL && !is_op_name(kernel->op))
    REFUSE("kernel %s names the operator \"%s\"; it must read vendor.name.v1", kernel->name, kernel->op);
  if (!is_word(kernel->backend)) REFUSE("kernel %s names no backend", kernel->name);
  if (kernel->encode == NULL) REFUSE("kernel %s has no encode", kernel->name);
  return GRAFT_OK;
}

graft_status graft_check_fusion(const graft_fusion_def *fusion, graft_error *error) {
  if (!is_word(fusion->name)) REFUSE("\"%s\" is no name for a fusion rule: letters, digits and _", shown(fusion->name));
  if (!is_op_name(fusion->op))
    REFUSE("fusion rule %s names the operator \"%s\"; it must read vendor.name.v1", fusion->name, shown(fusion->op));
  if (fusion->n_forms > 0 && fusion->forms == NULL)
    REFUSE("forms of fusion rule %s is NULL, n_forms is not 0", fusion->name);
  if (fusion->n_forms == 0 && fusion->propose == NULL)
    REFUSE("fusion rule %s has neither forms nor propose, so it would never match", fusion->name);
  return GRAFT_OK;
}

graft_status graft_check_dtype(graft_dtype dtype, graft_error *error) {
  const char *last;
  if (dtype == NULL) REFUSE("an entry of dtypes is NULL");
  // A dtype is used in place, by its address, so there is no completed copy of an older one.
  if (dtype->struct_size < sizeof *dtype)
    REFUSE("struct_size of a graft_dtype_def is %u; set it to sizeof the struct", (unsigned)dtype->struct_size);
  if (!is_dotted(dtype->name, 2, &last)) REFUSE("\"%s\" is no name for a dtype: vendor.name", shown(dtype->name));
  if (graft_dtype_find(dtype->name) != NULL)
    return GRAFT_FAIL(error, GRAFT_E_EXISTS, "dtype %s is built in", dtype->name);
  if (dtype->code != GRAFT_DTYPE_CUSTOM) REFUSE("the code of dtype %s is not GRAFT_DTYPE_CUSTOM", dtype->name);
  if (dtype->block_elements == 0 || dtype->block_bytes == 0) REFUSE("a block of dtype %s is empty", dtype->name);
  if (dtype->alignment == 0 || (dtype->alignment & (dtype->alignment - 1)) != 0 || dtype->alignment > 4096)
    REFUSE("the alignment of dtype %s is %u; it must be a power of two up to 4096", dtype->name,
           (unsigned)dtype->alignment);
  if (dtype->block_bytes % dtype->alignment != 0)
    REFUSE("a block of dtype %s is no multiple of its alignment, so the second would lie askew", dtype->name);
  if (dtype->to_f32 == NULL || dtype->from_f32 == NULL) REFUSE("dtype %s lacks a conversion", dtype->name);
  return GRAFT_OK;
}

graft_status graft_check_backend(const graft_backend_def *backend, graft_error *error) {
  if (!is_word(backend->name)) REFUSE("\"%s\" is no name for a backend: letters, digits and _", shown(backend->name));
  bool is_whole = backend->count != NULL && backend->open != NULL && backend->close != NULL &&
                  backend->describe != NULL && backend->allocate != NULL && backend->release != NULL &&
                  backend->upload != NULL && backend->download != NULL && backend->record_begin != NULL &&
                  backend->step_begin != NULL && backend->record_end != NULL && backend->record_destroy != NULL &&
                  backend->run != NULL;
  if (!is_whole) REFUSE("backend %s lacks a function; only parallel and what follows it may be NULL", backend->name);
  int n_async = (backend->synchronize != NULL) + (backend->stream_create != NULL) + (backend->stream_destroy != NULL) +
                (backend->upload_async != NULL) + (backend->download_async != NULL) + (backend->copy_async != NULL) +
                (backend->event_create != NULL) + (backend->event_destroy != NULL) + (backend->event_record != NULL) +
                (backend->event_wait != NULL) + (backend->stream_wait != NULL);
  if (n_async != 0 && n_async != 11 && (n_async != 1 || backend->synchronize == NULL))
    REFUSE("backend %s has some functions for streams; it needs all, with synchronize, or none", backend->name);
  int n_beside = (backend->allocate_host != NULL) + (backend->release_host != NULL) + (backend->run_beside != NULL);
  if (n_beside != 0 && (n_beside != 3 || n_async != 11))
    REFUSE("backend %s has allocate_host, release_host or run_beside; it needs all three, with streams, or none",
           backend->name);
  if ((backend->register_host != NULL) != (backend->unregister_host != NULL) ||
      (backend->register_host != NULL && backend->stream_create == NULL))
    REFUSE("backend %s has register_host or unregister_host; it needs both, with streams, or neither", backend->name);
  if (backend->kernels_of != NULL && (!is_word(backend->kernels_of) || strcmp(backend->kernels_of, backend->name) == 0))
    REFUSE("backend %s cannot take the kernels of \"%s\"", backend->name, backend->kernels_of);
  return GRAFT_OK;
}
