#include "src/graph/printer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/graph/attrs.h"

static void write_bytes(graft_printer *printer, const char *text, size_t size) {
  if (printer->status == GRAFT_OK && size > 0)
    printer->status = printer->writer.write(printer->writer.user, text, size);
}

void graft_print_text(graft_printer *printer, const char *text) {
  write_bytes(printer, text, strlen(text));
}

void graft_print_format(graft_printer *printer, const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  graft_print_text(printer, text);
}

void graft_print_quoted(graft_printer *printer, const char *text) {
  graft_print_text(printer, "\"");
  const char *plain = text;
  for (const char *c = text; *c != '\0'; ++c) {
    bool is_control = (unsigned char)*c < 0x20 || *c == 0x7F;
    if (!is_control && *c != '"' && *c != '\\') continue;
    write_bytes(printer, plain, (size_t)(c - plain));
    plain = c + 1;
    if (is_control) {
      graft_print_format(printer, "\\x%02x", (unsigned)(unsigned char)*c);
    } else {
      graft_print_format(printer, "\\%c", *c);
    }
  }
  graft_print_text(printer, plain);
  graft_print_text(printer, "\"");
}

// The shortest decimal number that reads back as the same double.
static void print_f64(graft_printer *printer, double value) {
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  graft_print_text(printer, text);
}

static void print_i64s(graft_printer *printer, const graft_attr_def *attr, const char *attrs) {
  int32_t n = graft_attr_count(attr, attrs);
  graft_print_text(printer, "[");
  for (int32_t i = 0; i < n; ++i) {
    int64_t value;
    memcpy(&value, attrs + attr->offset + (size_t)i * sizeof value, sizeof value);
    graft_print_format(printer, "%s%lld", i == 0 ? "" : ", ", (long long)value);
  }
  graft_print_text(printer, "]");
}

static void print_value(graft_printer *printer, const graft_attr_def *attr, const char *attrs) {
  const char *member = attrs + attr->offset;
  switch (attr->type) {
    case GRAFT_ATTR_I64: {
      int64_t value;
      memcpy(&value, member, sizeof value);
      graft_print_format(printer, "%lld", (long long)value);
      break;
    }
    case GRAFT_ATTR_F64: {
      double value;
      memcpy(&value, member, sizeof value);
      print_f64(printer, value);
      break;
    }
    case GRAFT_ATTR_BOOL: graft_print_text(printer, *(const bool *)member ? "true" : "false"); break;
    case GRAFT_ATTR_DTYPE: {
      graft_dtype value;
      memcpy(&value, member, sizeof value);
      graft_print_text(printer, value == NULL ? "none" : value->name);
      break;
    }
    case GRAFT_ATTR_ENUM: {
      int32_t value;
      memcpy(&value, member, sizeof value);
      graft_print_text(printer, attr->choices[value]);
      break;
    }
    case GRAFT_ATTR_I64S: print_i64s(printer, attr, attrs); break;
  }
}

void graft_print_attrs(graft_printer *printer, const graft_op_def *op, const void *attrs) {
  for (uint32_t i = 0; i < op->n_attrs; ++i) {
    if (i > 0) graft_print_text(printer, ", ");
    graft_print_text(printer, op->attrs[i].name);
    graft_print_text(printer, "=");
    print_value(printer, &op->attrs[i], attrs);
  }
}
