// Turns 64 numbers over, with the barrier that this needs and without it; and more that only tests of the emulator
// need.
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
    shared.values[thread_number()] = p.from[thread_number()];
    if (has_barrier) {
        block_sync();
    }
    p.to[thread_number()] = shared.values[COUNT - 1 - thread_number()];
}

KERNEL(reverse_right, ReverseParameters, COUNT, 1) {
    SHARED(ReverseShared, shared);
    reverse<true>(p, shared);
}

KERNEL(reverse_without_barrier, ReverseParameters, COUNT, 1) {
    SHARED(ReverseShared, shared);
    reverse<false>(p, shared);
}

/// Each lane copies four numbers; the copies are waited for, or not.
template <bool waits>
DEVICE void pass_on(const ReverseParameters &p, ReverseShared &shared) {
    const int start = thread_number() % (COUNT / 4) * 4;
    copy_async(shared.values + start, p.from + start, 16);
    copy_commit();
    if (waits) {
        copy_wait<0>();
    }
    block_sync();
    p.to[thread_number()] = shared.values[thread_number()];
}

KERNEL(copy_right, ReverseParameters, COUNT, 1) {
    SHARED(ReverseShared, shared);
    pass_on<true>(p, shared);
}

KERNEL(copy_without_wait, ReverseParameters, COUNT, 1) {
    SHARED(ReverseShared, shared);
    pass_on<false>(p, shared);
}

/// Half of a warp goes elsewhere.
KERNEL(lanes_apart, ReverseParameters, COUNT, 1) {
    if (lane_number() < 16) {
        warp_sync();
    } else {
        p.to[thread_number()] = shuffle_xor(p.from[thread_number()], 1);
    }
}

/// A barrier that half of the threads wait at, and the others at another.
KERNEL(barriers_apart, ReverseParameters, COUNT, 1) {
    if (warp_number() == 0) {
        warp_sync();
        if (lane_number() < 31) {
            warp_sync();
        } else {
            block_sync();
        }
    }
    p.to[thread_number()] = 1.0f;
}

/// One number behind the end.
KERNEL(beside, ReverseParameters, COUNT, 1) { p.to[thread_number() + 1] = 1.0f; }
