// Runs kernels on this machine: fibers, barriers, and the table of kernels. See device.h.
//
// A thread of the host runs one block after the other, and has its own fibers, so that several host threads can run kernels at
// once. Fibers are started with makecontext and switched with setjmp and longjmp, which make no system calls.

#ifndef EMULATE
#error "compile with -DEMULATE"
#endif

#include <csetjmp>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <ucontext.h>
#include <vector>

#include "device.h"

namespace emulate {
namespace {

constexpr int THREADS_MAX = 256;
/// The byte of uninitialized memory: NaN in any format.
constexpr int NAN_BYTE = 0xff;
constexpr size_t STACK_BYTES = 128 * 1024;
/// The shared memory that a block has on every GPU without opting in to more.
constexpr size_t SHARED_BYTES_MAX = 48 * 1024;

struct Kernel {
    size_t bytes;
    int threads;
    void (*run)(const void *);
};

std::map<std::string, Kernel> &kernels() {
    static std::map<std::string, Kernel> all;
    return all;
}

/// An asynchronous copy that has been started.
struct Copy {
    void *to;
    const void *from;
    int valid, group;
};

struct Fiber {
    jmp_buf position;
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[STACK_BYTES]};
    int number = 0;
    bool has_begun = false, has_ended = false;
    int groups = 0;
    std::vector<Copy> copies;
};

/// A warp operation, and the lanes that have arrived at it.
struct WarpBarrier {
    WarpOperation operation = nullptr;
    int arrived = 0;
    void *operands[32];
};

/// Runs blocks on one thread of the host.
struct Multiprocessor {
    jmp_buf scheduler;
    std::vector<Fiber> fibers{THREADS_MAX};
    std::vector<Fiber *> ready;
    WarpBarrier warps[THREADS_MAX / 32];
    const Kernel *kernel = nullptr;
    const void *parameters = nullptr;
    int block[2];
    int live = 0, at_barrier = 0;
    Fiber *running = nullptr;
    uint64_t random = 0;
    std::string failure;
    alignas(128) unsigned char shared[SHARED_BYTES_MAX];
};

thread_local std::unique_ptr<Multiprocessor> multiprocessor;

uint32_t next_random(Multiprocessor &m) {
    // xorshift64*, Vigna 2016.
    m.random ^= m.random >> 12;
    m.random ^= m.random << 25;
    m.random ^= m.random >> 27;
    return uint32_t((m.random * 0x2545f4914f6cdd1dull) >> 32);
}

/// Suspends the running fiber until it is chosen again.
__attribute__((noinline)) void yield_fiber(Multiprocessor &m) {
    if (_setjmp(m.running->position) == 0) {
        _longjmp(m.scheduler, 1);
    }
}

/// Releases the barrier if all fibers that have not ended wait there.
void release_barrier(Multiprocessor &m) {
    if (m.at_barrier == 0 || m.at_barrier < m.live) {
        return;
    }
    m.at_barrier = 0;
    for (int number = 0; number < m.kernel->threads; number++) {
        if (!m.fibers[number].has_ended) {
            m.ready.push_back(&m.fibers[number]);
        }
    }
}

/// The main function of a fiber, which runs one block after the other.
void fiber_main() {
    for (;;) {
        Multiprocessor &m = *multiprocessor;
        m.kernel->run(m.parameters);
        m.running->has_ended = true;
        m.live--;
        release_barrier(m);
        yield_fiber(m);
    }
}

/// Runs a fiber until it suspends itself.
__attribute__((noinline)) void resume(Multiprocessor &m, Fiber &fiber) {
    m.running = &fiber;
    if (_setjmp(m.scheduler) != 0) {
        return;
    }
    if (fiber.has_begun) {
        _longjmp(fiber.position, 1);
    }
    fiber.has_begun = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
    setcontext(&fiber.context);
}

void begin_block(Multiprocessor &m) {
    std::memset(m.shared, NAN_BYTE, sizeof m.shared);
    m.live = m.kernel->threads;
    m.at_barrier = 0;
    m.ready.clear();
    for (WarpBarrier &warp : m.warps) {
        warp.arrived = 0;
    }
    for (int number = 0; number < m.live; number++) {
        Fiber &fiber = m.fibers[number];
        fiber.number = number;
        fiber.has_ended = false;
        fiber.groups = 0;
        fiber.copies.clear();
        m.ready.push_back(&fiber);
    }
}

/// Runs a block. Returns whether all threads have ended.
bool run_block(Multiprocessor &m) {
    begin_block(m);
    while (!m.ready.empty()) {
        const size_t chosen = next_random(m) % m.ready.size();
        Fiber *fiber = m.ready[chosen];
        m.ready[chosen] = m.ready.back();
        m.ready.pop_back();
        resume(m, *fiber);
        if (!m.failure.empty()) {
            return false;
        }
    }
    if (m.live > 0) {
        m.failure = "some threads wait for others that never arrive";
    }
    return m.live == 0;
}

/// Bytes before and after each allocation that must not be written.
constexpr size_t GUARD_BYTES = 256;

/// Stored in the guard before an allocation.
struct Header {
    void *whole;
    size_t bytes;
};

} // namespace

[[noreturn]] void fail(const char *why) {
    multiprocessor->failure = why;
    _longjmp(multiprocessor->scheduler, 1);
}

int thread() { return multiprocessor->running->number; }
int block(int axis) { return multiprocessor->block[axis]; }

void *shared_memory(size_t bytes) {
    if (bytes > SHARED_BYTES_MAX) {
        fail("a block has at most 48 KiB of shared memory");
    }
    return multiprocessor->shared;
}

void block_barrier() {
    Multiprocessor &m = *multiprocessor;
    m.at_barrier++;
    release_barrier(m);
    yield_fiber(m);
}

void warp_collective(WarpOperation operation, void *operands) {
    Multiprocessor &m = *multiprocessor;
    const int number = m.running->number;
    WarpBarrier &warp = m.warps[number / 32];
    if (warp.arrived > 0 && warp.operation != operation) {
        fail("lanes of a warp are at different operations");
    }
    warp.operation = operation;
    warp.operands[number % 32] = operands;
    if (++warp.arrived == 32) {
        warp.arrived = 0;
        operation(warp.operands);
        for (int lane = 0; lane < 32; lane++) {
            m.ready.push_back(&m.fibers[number / 32 * 32 + lane]);
        }
    }
    yield_fiber(m);
}

void copy(void *to, const void *from, int valid) {
    if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) {
        fail("a copy is not aligned to 16 bytes");
    }
    Fiber &own = *multiprocessor->running;
    std::memset(to, NAN_BYTE, 16);
    own.copies.push_back({to, from, valid, own.groups});
}

void commit() { multiprocessor->running->groups++; }

void wait(int groups) {
    Fiber &own = *multiprocessor->running;
    size_t left = 0;
    for (const Copy &copy : own.copies) {
        if (copy.group < own.groups - groups) {
            std::memset(copy.to, 0, 16);
            std::memcpy(copy.to, copy.from, copy.valid);
        } else {
            own.copies[left++] = copy;
        }
    }
    own.copies.resize(left);
}

Registration::Registration(const char *name, size_t bytes, int threads, void (*run)(const void *)) {
    kernels()[name] = Kernel{bytes, threads, run};
}

float f16_to_float(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) {
        return float_of(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    }
    // A multiplication moves the exponent, also of subnormal numbers.
    return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));
}

uint16_t float_to_f16(float value) {
    const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff;
    const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000) {
        return sign | 0x7fff;
    }
    if (magnitude >= 0x47800000) {
        return sign | 0x7c00;
    }
    if (magnitude < 0x38800000) {
        // Adding 0.5 rounds, because its last bit is worth the smallest half-precision number.
        return sign | uint16_t(bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f));
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | uint16_t((rounded >> 13) - (112 << 10));
}

} // namespace emulate

/// The length of a kernel's parameters in bytes, rounded up to whole words, which NVIDIA's driver knows from the kernel. 0 if
/// there is no such kernel.
extern "C" size_t emulate_parameter_bytes(const char *name) {
    using namespace emulate;
    const auto found = kernels().find(name);
    return found == kernels().end() ? 0 : (found->second.bytes + 7) / 8 * 8;
}

/// Runs all blocks of a kernel. Returns null or an error.
extern "C" const char *emulate_launch(const char *name, const uint32_t *grid, uint32_t threads,
                                      const void *parameters, size_t bytes, uint64_t seed) {
    using namespace emulate;
    static thread_local std::string failure;
    const auto found = kernels().find(name);
    if (found == kernels().end()) {
        return "there is no kernel of this name";
    }
    const Kernel &kernel = found->second;
    if (kernel.threads != int(threads)) {
        return "the kernel was compiled for another number of threads";
    }
    if ((kernel.bytes + 7) / 8 * 8 != bytes) {
        return "the parameters have the wrong length";
    }
    if (multiprocessor == nullptr) {
        multiprocessor.reset(new Multiprocessor);
    }
    Multiprocessor &m = *multiprocessor;
    m.kernel = &kernel;
    m.parameters = parameters;
    m.random = seed * 0x9e3779b97f4a7c15ull + 1;
    const uint64_t blocks = uint64_t(grid[0]) * grid[1];
    for (uint64_t block = 0; block < blocks; block++) {
        m.block[0] = int(block % grid[0]);
        m.block[1] = int(block / grid[0]);
        if (!run_block(m)) {
            failure = m.failure;
            // Its fibers are suspended at arbitrary points.
            multiprocessor.reset();
            return failure.c_str();
        }
    }
    return nullptr;
}

/// Allocates memory for kernels, filled with NaN.
extern "C" void *emulate_allocate(size_t bytes) {
    using namespace emulate;
    const size_t all = (bytes + 2 * GUARD_BYTES + 255) / 256 * 256;
    auto *whole = static_cast<unsigned char *>(std::aligned_alloc(256, all));
    if (whole == nullptr) {
        return nullptr;
    }
    std::memset(whole, NAN_BYTE, all);
    const Header header{whole, bytes};
    std::memcpy(whole, &header, sizeof header);
    return whole + GUARD_BYTES;
}

/// Frees memory. Returns whether the guards around it are intact.
extern "C" int emulate_free(void *memory) {
    using namespace emulate;
    auto *start = static_cast<unsigned char *>(memory);
    Header header;
    std::memcpy(&header, start - GUARD_BYTES, sizeof header);
    bool is_intact = true;
    const auto *front = static_cast<unsigned char *>(header.whole);
    for (size_t i = sizeof header; i < GUARD_BYTES; i++) {
        is_intact &= front[i] == NAN_BYTE;
    }
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        is_intact &= start[header.bytes + i] == NAN_BYTE;
    }
    std::free(header.whole);
    return is_intact;
}
