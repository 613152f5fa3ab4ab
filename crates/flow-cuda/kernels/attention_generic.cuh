// Attention within each text without tensor cores, for 32-bit floats and for heads of any size.
//
// A block processes 16 queries of one head, and each of its warps some of them, one after the other. A warp iterates over the
// text's keys, 32 at a time: first a key for each lane, then a few columns of the values for each lane. The softmax is that of
// attention.cuh.
#pragma once

#include "attention.cuh"

constexpr int GENERIC_WARPS = 4;
/// Maximum size of a head. No known model has more than 128.
constexpr int GENERIC_HEAD_SIZE_MAX = 256;
constexpr int GENERIC_COLUMNS = GENERIC_HEAD_SIZE_MAX / 32;

struct AttentionGenericShared {
    // For each warp.
    float query[GENERIC_WARPS][GENERIC_HEAD_SIZE_MAX];
    float weights[GENERIC_WARPS][STEP_KEYS];
};

template <typename T>
struct AttentionGeneric {
    const AttentionParams &p;
    const QueryTile tile;
    const int head;
    float (&query)[GENERIC_HEAD_SIZE_MAX];
    float (&weights)[STEP_KEYS];

    DEVICE_MEMBER const T *part(int token, int part_index) {
        const size_t row = size_t(tile.text + token) * p.states_stride;
        return static_cast<const T *>(p.states) + row + (part_index * p.heads + head) * p.head_size;
    }

    /// The dot product of the query and a key.
    DEVICE_MEMBER float product(int key) {
        constexpr int CHUNK = 16 / sizeof(T);
        const T *values = part(key, 1);
        float sum = 0.0f;
        if (p.head_size % CHUNK == 0) {
            for (int column = 0; column < p.head_size; column += CHUNK) {
                const auto chunk = *reinterpret_cast<const Group<T, CHUNK> *>(values + column);
                UNROLL for (int i = 0; i < CHUNK; i++) {
                    sum = fma_f32(query[column + i], to_float(chunk.values[i]), sum);
                }
            }
        } else {
            for (int column = 0; column < p.head_size; column++) {
                sum = fma_f32(query[column], to_float(values[column]), sum);
            }
        }
        return sum;
    }

    /// Computes the context of one query.
    DEVICE_MEMBER void attend_query(int position) {
        const int lane = lane_index();
        warp_sync(); // All lanes have finished the previous query.
        for (int column = lane; column < p.head_size; column += 32) {
            query[column] = to_float(part(position, 0)[column]) * p.scale;
        }
        warp_sync();
        float maximum = -INFINITY, total = 0.0f, out[GENERIC_COLUMNS] = {};
        for (int first = 0; first < tile.tokens; first += STEP_KEYS) {
            const int key = first + lane, count = min_int(tile.tokens - first, STEP_KEYS);
            float score = -INFINITY;
            if (lane < count) {
                score = product(key);
                if (p.position_bias != nullptr) {
                    score += p.position_bias[size_t(head) * (2 * p.max_tokens - 1) + p.max_tokens - 1 + key - position];
                }
            }
            const float new_maximum = max_float(maximum, warp_max(score));
            const float rescale = expf(maximum - new_maximum), weight = expf(score - new_maximum);
            maximum = new_maximum;
            total = total * rescale + warp_sum(weight);
            weights[lane] = weight;
            warp_sync();
            add_values(first, count, rescale, out);
            warp_sync(); // All lanes have read the weights.
        }
        T *to = static_cast<T *>(p.context) + size_t(tile.text + position) * p.context_stride + head * p.head_size;
        UNROLL for (int i = 0; i < GENERIC_COLUMNS; i++) {
            const int column = lane + i * 32;
            if (column < p.head_size) {
                to[column] = from_float<T>(out[i] / total);
            }
        }
    }

    /// Rescales the previous sums, and adds the values of a step, multiplied by their weights.
    DEVICE_MEMBER void add_values(int first, int count, float rescale, float (&out)[GENERIC_COLUMNS]) {
        UNROLL for (int i = 0; i < GENERIC_COLUMNS; i++) {
            out[i] *= rescale;
        }
        for (int key = 0; key < count; key++) {
            const T *values = part(first + key, 2);
            UNROLL for (int i = 0; i < GENERIC_COLUMNS; i++) {
                const int column = lane_index() + i * 32;
                if (column < p.head_size) {
                    out[i] = fma_f32(weights[key], to_float(values[column]), out[i]);
                }
            }
        }
    }

    DEVICE_MEMBER void run() {
        const int end = min_int(tile.query + TILE_QUERIES, tile.tokens);
        for (int position = tile.query + warp_index(); position < end; position += GENERIC_WARPS) {
            attend_query(position);
        }
    }
};

/// Each block processes a tile.
template <typename T>
DEVICE void attention_generic_tiles(const AttentionParams &p, AttentionGenericShared &shared) {
    const int index = block_x(), warp = warp_index();
    AttentionGeneric<T> attention{p, p.tiles[index % p.tile_count], index / p.tile_count, shared.query[warp],
                              shared.weights[warp]};
    attention.run();
}
