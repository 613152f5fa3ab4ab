// Kernels for tests of the emulator: some reverse or copy 64 numbers, others are incorrect on purpose.
#include "device.cuh"

struct ReverseParameters {
    const float *from;
    float *to;
};

constexpr int COUNT = 64;

struct ReverseShared {
    alignas(16) float values[COUNT];
};

template <bool has_barrier>
DEVICE void reverse(const ReverseParameters &p, ReverseShared &shared) {
    shared.values[thread_index()] = p.from[thread_index()];
    if (has_barrier) {
        block_sync();
    }
    p.to[thread_index()] = shared.values[COUNT - 1 - thread_index()];
}

KERNEL(reverse_correct, ReverseParameters, COUNT, 1) {
    SHARED(ReverseShared, shared);
    reverse<true>(p, shared);
}

KERNEL(reverse_without_barrier, ReverseParameters, COUNT, 1) {
    SHARED(ReverseShared, shared);
    reverse<false>(p, shared);
}

/// Copies four numbers per lane asynchronously, and waits for the copies or not.
template <bool waits>
DEVICE void copy_numbers(const ReverseParameters &p, ReverseShared &shared) {
    const int start = thread_index() % (COUNT / 4) * 4;
    copy_async(shared.values + start, p.from + start, 16);
    copy_commit();
    if (waits) {
        copy_wait<0>();
    }
    block_sync();
    p.to[thread_index()] = shared.values[thread_index()];
}

KERNEL(copy_correct, ReverseParameters, COUNT, 1) {
    SHARED(ReverseShared, shared);
    copy_numbers<true>(p, shared);
}

KERNEL(copy_without_wait, ReverseParameters, COUNT, 1) {
    SHARED(ReverseShared, shared);
    copy_numbers<false>(p, shared);
}

/// The two halves of a warp run different warp operations.
KERNEL(lanes_apart, ReverseParameters, COUNT, 1) {
    if (lane_index() < 16) {
        warp_sync();
    } else {
        p.to[thread_index()] = shuffle_xor(p.from[thread_index()], 1);
    }
}

/// Threads of a warp wait at different barriers.
KERNEL(barriers_apart, ReverseParameters, COUNT, 1) {
    if (warp_index() == 0) {
        warp_sync();
        if (lane_index() < 31) {
            warp_sync();
        } else {
            block_sync();
        }
    }
    p.to[thread_index()] = 1.0f;
}

/// Writes one number behind the end.
KERNEL(write_outside, ReverseParameters, COUNT, 1) { p.to[thread_index() + 1] = 1.0f; }
