// The products of src/main.rs by oneDNN (Debian: libdnnl-dev), in the same words: `shape;system;GFLOP/s`.
// Weights are packed beforehand, in the order that the library likes best.
//
//   g++ -O2 onednn.cpp -ldnnl && OMP_NUM_THREADS=1 ./a.out
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <dnnl.hpp>

using namespace dnnl;
using Type = memory::data_type;
using Clock = std::chrono::steady_clock;

static const double SPAN_S = 0.03;

struct Shape {
    memory::dim rows, inputs, outputs;
};

static std::vector<float> values(size_t count, uint32_t seed) {
    std::vector<float> values(count);
    for (float &value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = float(seed >> 8) / 8388608.0f - 1.0f;
    }
    return values;
}

static matmul::primitive_desc describe(const engine &here, memory::desc states, memory::desc weights, memory::desc out) {
#if DNNL_VERSION_MAJOR >= 3
    return matmul::primitive_desc(here, states, weights, out);
#else
    return matmul::primitive_desc(matmul::desc(states, weights, out), here);
#endif
}

static memory reordered(memory from, memory::desc to, const engine &here, stream &queue) {
    memory result(to, here);
    reorder(from, result).execute(queue, from, result);
    queue.wait();
    return result;
}

static void measure(const engine &here, stream &queue, Shape shape, Type type, const char *name) {
    using Tag = memory::format_tag;
    const memory::dims left{shape.rows, shape.inputs}, right{shape.inputs, shape.outputs}, result{shape.rows, shape.outputs};
    auto states = values(shape.rows * shape.inputs, 1), weights = values(shape.inputs * shape.outputs, 2);
    memory::desc out_desc(result, Type::f32, Tag::ab);
    auto how = describe(here, {left, type, Tag::ab}, {right, type, Tag::any}, out_desc);
    memory a = reordered(memory({left, Type::f32, Tag::ab}, here, states.data()), {left, type, Tag::ab}, here, queue);
    // Weights lie output after output.
    memory b = reordered(memory({right, Type::f32, Tag::ba}, here, weights.data()), how.weights_desc(), here, queue);
    memory c(out_desc, here);
    matmul product(how);
    auto run = [&] {
        product.execute(queue, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
        queue.wait();
    };
    run();
    double wanted = 0;
    for (memory::dim input = 0; input < shape.inputs; input++) wanted += double(states[input]) * weights[input];
    const double got = *static_cast<float *>(c.get_data_handle());
    if (std::fabs(got - wanted) > (type == Type::f32 ? 1e-3 : 0.5)) {
        std::fprintf(stderr, "%s: %f, wanted %f\n", name, got, wanted);
        std::exit(1);
    }
    // The quickest run counts: whatever else a machine does only takes time.
    double quickest = 1e9;
    for (double spent = 0; spent < SPAN_S;) {
        const auto started = Clock::now();
        run();
        const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
        spent += seconds;
        quickest = std::min(quickest, seconds);
    }
    const double flop = 2.0 * shape.rows * shape.inputs * shape.outputs;
    std::printf("%ld × %ld × %ld;%s;%.2f\n", long(shape.rows), long(shape.inputs), long(shape.outputs), name, flop / quickest / 1e9);
}

int main() {
    const engine here(engine::kind::cpu, 0);
    stream queue(here);
    const Shape layers[] = {{0, 384, 1152}, {0, 384, 384}, {0, 384, 1536}, {0, 1536, 384}};
    for (memory::dim rows : {14, 128, 448, 4096}) {
        for (Shape shape : layers) {
            shape.rows = rows;
            measure(here, queue, shape, Type::f32, "oneDNN f32");
            try {
                measure(here, queue, shape, Type::bf16, "oneDNN bf16");
            } catch (const error &) {
                // Not on this machine.
            }
        }
    }
}
