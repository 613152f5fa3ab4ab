// A fake driver without a GPU, for tests. Device memory is host memory, and kernels do nothing, or run in the emulator if it
// is linked (-DEMULATED). Compiler options set the status codes of CUDA that functions return: -DINIT=100, -DALLOC=2,
// -DLAUNCH=700 and so on.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 13000
#endif
#ifndef COUNT
#define COUNT 2
#endif
#ifndef MAJOR
#define MAJOR 9
#endif
#ifndef MINOR
#define MINOR 0
#endif
#ifndef INIT
#define INIT 0
#endif
#ifndef RETAIN
#define RETAIN 0
#endif
#ifndef LOAD
#define LOAD 0
#endif
#ifndef FUNCTION
#define FUNCTION 0
#endif
#ifndef ALLOC
#define ALLOC 0
#endif
#ifndef LAUNCH
#define LAUNCH 0
#endif
#ifndef SYNCHRONIZE
#define SYNCHRONIZE 0
#endif
// The status of a synchronization after a kernel was launched.
#ifndef KERNEL_RESULT
#define KERNEL_RESULT 0
#endif

#ifdef EMULATED
size_t emulate_parameter_bytes(const char *name);
const char *emulate_launch(const char *name, const uint32_t *grid, uint32_t threads, const void *parameters,
                           size_t bytes, uint64_t seed);
#endif

typedef int status;

// The arguments of the last launch, for tests.
uint64_t fake_launched[8];

status cuInit(unsigned flags) { return INIT + (int)flags; }
status cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
#if VERSION >= 13000 && !defined(WITHOUT_FUNCTIONS)
status cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
status cuDeviceGet(int *device, int number) { *device = number; return number < COUNT ? 0 : 101; }
status cuDeviceGetName(char *name, int length, int device) {
  strncpy(name, "Fake GPU 0", length);
  name[9] = (char)('0' + device);
  return 0;
}
status cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
  for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(i + 16 * device);
  return 0;
}
status cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 16 ? 132 : attribute == 75 ? MAJOR : attribute == 76 ? MINOR : -1;
  return 0;
}
status cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = 1 << 30; return 0; }
status cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { (void)device; return flags == 4 ? 0 : 1; }
status cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(intptr_t)(device + 1); return RETAIN; }
status cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }

static _Thread_local void *current;
status cuCtxSetCurrent(void *context) { current = context; return 0; }
// As in the real driver, a thread needs a context for these functions.
#define NEEDS_CONTEXT if (current == NULL) return 201

status cuMemGetInfo_v2(size_t *free_bytes, size_t *total) { NEEDS_CONTEXT; *free_bytes = 1 << 29; *total = 1 << 30; return 0; }
status cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  NEEDS_CONTEXT;
  if (ALLOC) return ALLOC;
  if (bytes == 0) return 1;
  *address = (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return 0;
}
status cuMemFree_v2(uint64_t address) { NEEDS_CONTEXT; free((void *)(uintptr_t)address); return 0; }
status cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  NEEDS_CONTEXT;
  (void)flags;
  *memory = malloc(bytes);
  memset(*memory, 0xff, bytes);
  return 0;
}
status cuMemFreeHost(void *memory) { NEEDS_CONTEXT; free(memory); return 0; }
status cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  NEEDS_CONTEXT;
  if (stream == NULL) return 1;
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}
status cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  NEEDS_CONTEXT;
  if (stream == NULL) return 1;
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return 0;
}
status cuStreamCreate(void **stream, unsigned flags) { NEEDS_CONTEXT; *stream = malloc(1); return flags == 1 ? 0 : 1; }
status cuStreamDestroy_v2(void *stream) { NEEDS_CONTEXT; free(stream); return 0; }
static int has_launched;
status cuStreamSynchronize(void *stream) {
  NEEDS_CONTEXT;
  (void)stream;
  return has_launched && KERNEL_RESULT ? KERNEL_RESULT : SYNCHRONIZE;
}
status cuModuleLoadData(void **module, const void *image) {
  NEEDS_CONTEXT;
  *module = (void *)image;
  return LOAD;
}
status cuModuleUnload(void *module) { NEEDS_CONTEXT; (void)module; return 0; }
status cuModuleGetFunction(void **function, void *module, const char *name) {
  NEEDS_CONTEXT;
  (void)module;
  // Never freed, because it is used in tests only.
  *function = strdup(name);
  return FUNCTION;
}
status cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **parameters, void **extra) {
  NEEDS_CONTEXT;
  uint64_t arguments[8] = {gx, gy, gz, bx, by, bz, shared, *(uint64_t *)parameters[0]};
  if (function == NULL || stream == NULL || extra != NULL) return 1;
  memcpy(fake_launched, arguments, sizeof arguments);
  has_launched = 1;
#ifdef EMULATED
  const uint32_t grid[2] = {gx, gy};
  const char *failure = emulate_launch(function, grid, bx, parameters[0], emulate_parameter_bytes(function), 7);
  if (failure != NULL) {
    fprintf(stderr, "kernel %s: %s\n", (const char *)function, failure);
    return 719;
  }
#endif
  return LAUNCH;
}
#endif
