/// @file
/// Declares the C functions of a compiled model: for C, C++, and whatever calls C. c_api.hpp beside it defines them.
#pragma once

#include <stddef.h>  // NOLINT(modernize-deprecated-headers): C reads this file, too
#include <stdint.h>  // NOLINT(modernize-deprecated-headers)

#if defined(__cplusplus)
#define GRADUS_C_FUNCTION extern "C" __attribute__((visibility("default")))
#else
#define GRADUS_C_FUNCTION extern
#endif

/// Declares the functions of a model NAME, whose examples, targets and outputs are arrays of these types, row-major:
/// `GRADUS_C_API_DECLARE(digits, float, int32_t, float);`. Write it in a header for the model's source and its users.
///
/// - NAME_bytes: the memory of a handle and of the tensors that its steps use, in bytes.
/// - NAME_init: a new model, whose starting values depend on the seed; NULL on failure. It takes NAME_bytes() bytes
///   at `memory`, of any alignment, which live until NAME_free; with NULL it takes them from the heap.
/// - NAME_step: one training step on `count` examples. Writes their loss before the update, unless `loss` is NULL.
///   Fails if the learning rate is negative or not finite, or the loss is not finite.
/// - NAME_predict: writes the outputs for `count` examples. As in a step, a batch of shape<upto<N>, ...> has 1 to N
///   examples, and one of shape<N, ...> has N.
/// - NAME_save: writes a safetensors file of the model and the optimizer's states. NAME_load reads it into a handle,
///   which goes on as the saved one would have, bit for bit.
/// - NAME_free: ends a handle. NULL is none.
/// - NAME_error: one line on the last failure of a call with this handle; for NULL, of this thread's last call without
///   a handle (NAME_init, or another one with NULL). It is empty before the first, and valid until the next.
///
/// A function returns 0, or 1 if it failed. A failed step has not changed parameters, but may have changed running
/// means; other failures change nothing. NAME_step and NAME_predict allocate nothing; only several threads may need
/// scratch at the first call with another number of examples. One thread at a time uses a handle. A freed handle is
/// refused as long as its memory exists: the caller's.
#define GRADUS_C_API_DECLARE(name, input, target, output)                                                            \
  typedef struct name##_handle name##_handle;                                                                        \
  GRADUS_C_FUNCTION size_t name##_bytes(void);                                                                       \
  GRADUS_C_FUNCTION name##_handle* name##_init(uint64_t seed, void* memory, size_t bytes);                           \
  GRADUS_C_FUNCTION int name##_step(name##_handle* handle, const input* inputs, const target* targets, size_t count, \
                                    double learning_rate, double* loss);                                             \
  GRADUS_C_FUNCTION int name##_predict(name##_handle* handle, const input* inputs, size_t count, output* outputs);   \
  GRADUS_C_FUNCTION int name##_save(name##_handle* handle, const char* path);                                        \
  GRADUS_C_FUNCTION int name##_load(name##_handle* handle, const char* path);                                        \
  GRADUS_C_FUNCTION void name##_free(name##_handle* handle);                                                         \
  GRADUS_C_FUNCTION const char* name##_error(const name##_handle* handle)
