// Runs kernels on this machine: fibers, barriers, and the table of kernels. See machine.h.
//
// A thread of the machine's runs one block after the other, and has fibers of its own, so that several may run kernels
// at once. Fibers are begun with makecontext and changed with setjmp and longjmp, which make no system calls.

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
/// Fills memory that nobody has written: in any format, values that are no numbers.
constexpr int NO_NUMBER = 0xff;
constexpr size_t STACK_BYTES = 128 * 1024;
/// As much as a block has everywhere without asking for more.
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

/// A copy that has begun.
struct Copy {
    void *to;
    const void *from;
    int valid, group;
};

struct Fiber {
    jmp_buf place;
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[STACK_BYTES]};
    int number = 0;
    bool has_begun = false, has_ended = false;
    int groups = 0;
    std::vector<Copy> copies;
};

/// What the lanes of a warp wait for.
struct Meeting {
    Together work = nullptr;
    int arrived = 0;
    void *operands[32];
};

/// All that one thread of the machine's needs to run blocks.
struct Machine {
    jmp_buf home;
    std::vector<Fiber> fibers{THREADS_MAX};
    std::vector<Fiber *> ready;
    Meeting meetings[THREADS_MAX / 32];
    const Kernel *kernel = nullptr;
    const void *parameters = nullptr;
    int block[2];
    int live = 0, at_barrier = 0;
    Fiber *running = nullptr;
    uint64_t random = 0;
    std::string failure;
    alignas(128) unsigned char shared[SHARED_BYTES_MAX];
};

thread_local std::unique_ptr<Machine> machine;

uint32_t next_random(Machine &m) {
    // xorshift64*, Vigna 2016.
    m.random ^= m.random >> 12;
    m.random ^= m.random << 25;
    m.random ^= m.random >> 27;
    return uint32_t((m.random * 0x2545f4914f6cdd1dull) >> 32);
}

/// Leaves the fiber that runs until it is chosen again.
__attribute__((noinline)) void leave(Machine &m) {
    if (_setjmp(m.running->place) == 0) {
        _longjmp(m.home, 1);
    }
}

/// Opens the barrier if all wait there who have not ended.
void open_barrier(Machine &m) {
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

/// What each fiber does, for one block after the other.
void fiber_main() {
    for (;;) {
        Machine &m = *machine;
        m.kernel->run(m.parameters);
        m.running->has_ended = true;
        m.live--;
        open_barrier(m);
        leave(m);
    }
}

/// Runs a fiber until it leaves.
__attribute__((noinline)) void enter(Machine &m, Fiber &fiber) {
    m.running = &fiber;
    if (_setjmp(m.home) != 0) {
        return;
    }
    if (fiber.has_begun) {
        _longjmp(fiber.place, 1);
    }
    fiber.has_begun = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
    setcontext(&fiber.context);
}

void begin_block(Machine &m) {
    std::memset(m.shared, NO_NUMBER, sizeof m.shared);
    m.live = m.kernel->threads;
    m.at_barrier = 0;
    m.ready.clear();
    for (Meeting &meeting : m.meetings) {
        meeting.arrived = 0;
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

/// Whether all threads came to their end.
bool run_block(Machine &m) {
    begin_block(m);
    while (!m.ready.empty()) {
        const size_t chosen = next_random(m) % m.ready.size();
        Fiber *fiber = m.ready[chosen];
        m.ready[chosen] = m.ready.back();
        m.ready.pop_back();
        enter(m, *fiber);
        if (!m.failure.empty()) {
            return false;
        }
    }
    if (m.live > 0) {
        m.failure = "some threads wait for others that never come";
    }
    return m.live == 0;
}

/// In front of memory and behind it.
constexpr size_t GUARD_BYTES = 256;

/// Stands in the front guard.
struct Header {
    void *whole;
    size_t bytes;
};

} // namespace

[[noreturn]] void fail(const char *why) {
    machine->failure = why;
    _longjmp(machine->home, 1);
}

int thread() { return machine->running->number; }
int block(int axis) { return machine->block[axis]; }

void *shared_memory(size_t bytes) {
    if (bytes > SHARED_BYTES_MAX) {
        fail("a block has no more than 48 KiB of shared memory");
    }
    return machine->shared;
}

void block_barrier() {
    Machine &m = *machine;
    m.at_barrier++;
    open_barrier(m);
    leave(m);
}

void warp_together(Together work, void *operands) {
    Machine &m = *machine;
    const int number = m.running->number;
    Meeting &meeting = m.meetings[number / 32];
    if (meeting.arrived > 0 && meeting.work != work) {
        fail("lanes of a warp are at different places");
    }
    meeting.work = work;
    meeting.operands[number % 32] = operands;
    if (++meeting.arrived == 32) {
        meeting.arrived = 0;
        work(meeting.operands);
        for (int lane = 0; lane < 32; lane++) {
            m.ready.push_back(&m.fibers[number / 32 * 32 + lane]);
        }
    }
    leave(m);
}

void copy(void *to, const void *from, int valid) {
    if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) {
        fail("a copy does not begin at a multiple of 16 bytes");
    }
    Fiber &own = *machine->running;
    std::memset(to, NO_NUMBER, 16);
    own.copies.push_back({to, from, valid, own.groups});
}

void commit() { machine->running->groups++; }

void wait(int groups) {
    Fiber &own = *machine->running;
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

float widen_f16(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) {
        return float_of(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    }
    // A multiplication moves the exponent, also of numbers too small to be normal.
    return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));
}

uint16_t narrow_f16(float value) {
    const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff;
    const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000) {
        return sign | 0x7fff;
    }
    if (magnitude >= 0x47800000) {
        return sign | 0x7c00;
    }
    if (magnitude < 0x38800000) {
        // Adding a half, whose last bit is that of the smallest half-precision number, rounds.
        return sign | uint16_t(bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f));
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | uint16_t((rounded >> 13) - (112 << 10));
}

} // namespace emulate

/// How long a kernel's parameters are, in whole words: what NVIDIA's driver knows from the kernel itself. 0: there is no
/// such kernel.
extern "C" size_t emulate_parameter_bytes(const char *name) {
    using namespace emulate;
    const auto found = kernels().find(name);
    return found == kernels().end() ? 0 : (found->second.bytes + 7) / 8 * 8;
}

/// Runs all blocks of a kernel; nothing, or why it could not be done.
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
        return "the parameters have another length";
    }
    if (machine == nullptr) {
        machine.reset(new Machine);
    }
    Machine &m = *machine;
    m.kernel = &kernel;
    m.parameters = parameters;
    m.random = seed * 0x9e3779b97f4a7c15ull + 1;
    const uint64_t blocks = uint64_t(grid[0]) * grid[1];
    for (uint64_t block = 0; block < blocks; block++) {
        m.block[0] = int(block % grid[0]);
        m.block[1] = int(block / grid[0]);
        if (!run_block(m)) {
            failure = m.failure;
            // Its fibers stand wherever they stood.
            machine.reset();
            return failure.c_str();
        }
    }
    return nullptr;
}

/// Memory for kernels, full of what are no numbers.
extern "C" void *emulate_allocate(size_t bytes) {
    using namespace emulate;
    const size_t all = (bytes + 2 * GUARD_BYTES + 255) / 256 * 256;
    auto *whole = static_cast<unsigned char *>(std::aligned_alloc(256, all));
    if (whole == nullptr) {
        return nullptr;
    }
    std::memset(whole, NO_NUMBER, all);
    const Header header{whole, bytes};
    std::memcpy(whole, &header, sizeof header);
    return whole + GUARD_BYTES;
}

/// Whether nobody has written in front of the memory or behind it, which is given back.
extern "C" int emulate_free(void *memory) {
    using namespace emulate;
    auto *start = static_cast<unsigned char *>(memory);
    Header header;
    std::memcpy(&header, start - GUARD_BYTES, sizeof header);
    bool is_whole = true;
    const auto *front = static_cast<unsigned char *>(header.whole);
    for (size_t i = sizeof header; i < GUARD_BYTES; i++) {
        is_whole &= front[i] == NO_NUMBER;
    }
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        is_whole &= start[header.bytes + i] == NO_NUMBER;
    }
    std::free(header.whole);
    return is_whole;
}
