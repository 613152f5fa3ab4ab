/* The functions of NVML that the encoder's metrics ask, for the GPUs of `flow-cuda`'s fake driver. */

#include <string.h>

typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} memory;

typedef struct {
  unsigned gpu, memory;
} utilization;

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static char gpu;

int nvmlInit_v2(void) { return SUCCESS; }

int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  *device = &gpu;
  return strcmp(uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f") == 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, memory *info) {
  (void)device;
  info->total = 80ULL << 30;
  info->used = 3ULL << 30;
  info->free = info->total - info->used;
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, utilization *rates) {
  (void)device;
  rates->gpu = 25;
  rates->memory = 10;
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
  (void)device;
  *milliwatts = 123456;
  return SUCCESS;
}

/* As of GPUs without a sensor. */
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
  (void)device, (void)sensor, (void)degrees;
  return NOT_SUPPORTED;
}
