#!/usr/bin/env python3
"""Checks and measures flow on this machine's GPU, beside sentence-transformers; needs no compiler and no network.

    python3 run.py                  everything on the first GPU; 7 to 15 minutes
    python3 run.py --quick          the same with less of everything
    python3 run.py --device cpu     the same steps on the processor: it tries the script out and says nothing of GPUs
    python3 run.py --only parity    only some of the steps

Needs NVIDIA's driver 580 or newer, and a Python with torch and sentence-transformers. `cargo xtask gpu-bundle` packs this
script with all else that it needs; what lies compressed beside it is unpacked first. It writes raw figures to results/,
one JSON file a step, and a table to results/summary.md, and ends with 1 if a bar was missed.
"""
import argparse
import concurrent.futures
import contextlib
import json
import lzma
import os
import pathlib
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
FLOW = HERE / "flow"
MODEL = HERE / "model"
TEXTS = HERE / "texts"
CORPORA = ["tutorial", "mixed", "long"]

# Lowest cosine with sentence-transformers in fp32 on the same device, by our precision.
COSINE_MIN = {"f32": 0.999999, "f16": 0.9995, "bf16": 0.9995}
# Lowest correlation of scores with those of sentence-transformers in fp32.
CORRELATION_MIN = {"f32": 0.999999, "f16": 0.9999, "bf16": 0.999}
# How many times the rate of sentence-transformers in half precision at its best batch size.
RATIO_MIN = 2.0
# The same for the tutorial through a whole flow, at 32 documents a request.
END_TO_END_MIN = 5.0
TOKENS_PER_S_AIM = 1_000_000

BATCHES = [32, 64, 128, 256, 512, 1024, 2048]
READY_WITHIN_S = 120
POST_WITHIN_S = 900


def unpack():
    """Puts each file of the bundle that lies there compressed, as `NAME.xz`, in its place."""
    for packed in sorted(HERE.rglob("*.xz")):
        path = packed.with_suffix("")
        # Whole or not at all: a run that is broken off leaves nothing that the next one would take for it.
        unfinished = path.with_name(path.name + ".unfinished")
        with lzma.open(packed) as source, open(unfinished, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        shutil.copymode(packed, unfinished)
        unfinished.rename(path)
        # So the next bundle that is unpacked here is not taken for this one.
        packed.unlink()


class Run:
    """What the steps share: options, where results go, and which bars were met."""

    def __init__(self, options):
        self.device = options.device
        self.on_gpu = options.device != "cpu"
        self.rounds = 2 if options.quick else 5
        self.texts = 256 if options.quick else 4096
        self.documents = 500 if options.quick else 10_000
        self.batches = BATCHES[:4] if options.quick else BATCHES
        self.folder = HERE / "results"
        self.folder.mkdir(exist_ok=True)
        self.rows = []
        # Half precision is for GPUs: on the processor the peer computes in fp32, and so do we.
        self.fast = "f16" if self.on_gpu else "f32"
        self.precisions = ["f32", "f16", "bf16"] if self.on_gpu else ["f32"]
        self._peers = {}

    def note(self, step, what, value, bar=None, met=None):
        """A row of the table; `met` none: there is no bar, or none that counts here."""
        self.rows.append((step, what, value, bar or "", {True: "met", False: "MISSED", None: ""}[met]))
        print(f"  {what}: {value}" + (f" (bar: {bar}: {self.rows[-1][4] or 'not for this device'})" if bar else ""), flush=True)

    def bar(self, is_met):
        """Bars are for GPUs; elsewhere only the script is tried out."""
        return is_met if self.on_gpu else None

    def peer(self, precision):
        """sentence-transformers with the bundle's model, loaded once for each precision."""
        if precision not in self._peers:
            import torch
            from sentence_transformers import SentenceTransformer

            # Loaded on the processor first: fp32 there whatever type the file has.
            model = SentenceTransformer(str(MODEL), device="cpu").to(torch.float32)
            if precision == "f16":
                model = model.half()
            self._peers[precision] = model.to(torch_device(self.device)).eval()
        return self._peers[precision]

    def processor_peer(self, dtype):
        """The same on the processor, with this type of numbers."""
        key = f"processor {dtype}"
        if key not in self._peers:
            from sentence_transformers import SentenceTransformer

            self._peers[key] = SentenceTransformer(str(MODEL), device="cpu").to(dtype).eval()
        return self._peers[key]


def torch_device(device):
    return "cuda:0" if device == "cuda" else device


def flow(*arguments, env=None, timeout=POST_WITHIN_S):
    """Runs our program to its end."""
    return subprocess.run(
        [FLOW, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {}), "NO_COLOR": "1"},
    )


def must(*arguments, **more):
    done = flow(*arguments, **more)
    if done.returncode != 0:
        raise RuntimeError(f"flow {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Started:
    """A process of ours that serves until the block ends."""

    def __init__(self, arguments, ready, env=None):
        self.lines = []
        self.process = subprocess.Popen(
            [FLOW, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(env or {}), "NO_COLOR": "1"},
        )
        self.is_ready = threading.Event()
        self.ready = ready
        threading.Thread(target=self._read, daemon=True).start()
        if not self.is_ready.wait(READY_WITHIN_S) or self.process.poll() is not None:
            self.stop()
            raise RuntimeError("it did not become ready:\n" + "".join(self.lines[-20:]))

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if self.ready in line:
                self.is_ready.set()
        # A waiting reader sees that the process has ended.
        self.is_ready.set()

    def said(self, part):
        return [line.strip() for line in self.lines if part in line]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


@contextlib.contextmanager
def encoder(with_options, env=None):
    """The encoder alone, and its address."""
    port = free_port()
    options = json.dumps({"model": str(MODEL), **with_options})
    arguments = ["executor", "--uses", "sentence-encoder", "--uses-with", options, "--port", port]
    with Started(arguments, "ready and listening on", env) as started:
        yield f"grpc://127.0.0.1:{port}", started


@contextlib.contextmanager
def whole_flow(with_options, uses="sentence-encoder"):
    """A flow with a gateway and one executor, and its address."""
    port = free_port()
    path = HERE / "results" / f"flow-{port}.yml"
    path.write_text(
        json.dumps(
            {
                "jtype": "Flow",
                "with": {"port": port},
                "executors": [{"name": "executor", "uses": uses, "uses_with": {"model": str(MODEL), **with_options}}],
            }
        )
    )
    try:
        with Started(["up", path], "ready after") as started:
            yield f"grpc://127.0.0.1:{port}", started
    finally:
        path.unlink()


def post(url, texts, request_size, output=None):
    """Seconds that the documents of a file take, there and back; without an output nobody writes them down."""
    more = ["--output", output] if output else []
    started = time.perf_counter()
    must("post", url, "--on", "/encode", "--input", texts, "--request-size", request_size, *more)
    return time.perf_counter() - started


def read_texts(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def corpus(run, name, count=None):
    return read_texts(TEXTS / f"{name}.jsonl")[: count or run.texts]


def write_texts(run, name, texts):
    path = run.folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def vectors_of(path):
    """The vectors of documents that `flow post` wrote."""
    import numpy as np

    def vector(line):
        embedding = json.loads(line)["embedding"]
        if isinstance(embedding, list):
            return embedding
        raise RuntimeError(f"an embedding of an unknown form: {str(embedding)[:80]}")

    with open(path, encoding="utf-8") as lines:
        return np.array([vector(line) for line in lines], dtype=np.float64)


def lowest_cosine(got, wanted):
    import numpy as np

    products = (got * wanted).sum(1)
    return float((products / np.linalg.norm(got, axis=1) / np.linalg.norm(wanted, axis=1)).min())


def machine(run):
    """What it is measured on."""
    import sentence_transformers
    import torch

    def said(*command):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
        return None

    devices = json.loads(must("devices", "--json"))
    about = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "sentence_transformers": sentence_transformers.__version__,
        "nvidia_smi": said("nvidia-smi"),
        "lscpu": said("lscpu"),
        "devices": devices,
    }
    cpu = devices["cpu"]
    run.note("machine", "processor", f"{cpu['name']}, {cpu['cores_allowed']} cores")
    for gpu in devices["gpus"]:
        usable = "usable" if gpu["usable"] else f"not usable: {gpu['why_not']}"
        run.note("machine", str(gpu["device"]), f"{gpu['name']}, compute {gpu['compute_capability']}, {usable}")
    if not devices["gpus"]:
        run.note("machine", "GPU", f"none: {devices['no_gpus']}")
    if run.on_gpu and not any(gpu["usable"] for gpu in devices["gpus"]):
        raise SystemExit("there is no GPU that this program can use; `--device cpu` tries the script out")
    return about


def parity(run):
    """The vectors are those of sentence-transformers in fp32 on the same device."""
    import numpy as np

    hard = read_texts(TEXTS / "hard.jsonl")
    # A document whose text is empty has none, and gets no vector.
    with_text = [number for number, text in enumerate(hard) if text]
    stored = np.fromfile(TEXTS / "hard.f32", dtype="<f4").reshape(len(hard), -1)[with_text].astype(np.float64)
    hard = [hard[number] for number in with_text]
    texts = hard + corpus(run, "mixed", 512)
    reference = run.peer("f32").encode(texts, batch_size=32, show_progress_bar=False)
    reference = np.asarray(reference, dtype=np.float64)
    path = write_texts(run, "parity", texts)
    # What is stored is of the model before its weights were cut to half precision, on a processor.
    results = {"reference_against_stored": lowest_cosine(reference[: len(hard)], stored)}
    run.note("parity", "what half-precision weights cost, lowest cosine", f"{results['reference_against_stored']:.8f}")
    for precision in run.precisions:
        output = run.folder / f"parity-{precision}.jsonl"
        with encoder({"device": run.device, "precision": precision}) as (url, started):
            post(url, path, 32, output)
            alone = run.folder / "parity-alone.jsonl"
            post(url, path, 1, alone)
            told = started.said("GPU opened") + started.said("ready and listening")
        got, one_by_one = vectors_of(output), vectors_of(alone)
        cosine = lowest_cosine(got, reference)
        results[precision] = {
            "cosine_min": cosine,
            "difference_max": float(np.abs(got - reference).max()),
            "against_stored": lowest_cosine(got[: len(hard)], stored),
            "batch_against_alone": float(np.abs(got - one_by_one).max()),
            "told": told,
        }
        bar = COSINE_MIN[precision]
        run.note("parity", f"{precision}: lowest cosine of {len(texts)}", f"{cosine:.8f}", f"≥ {bar}", cosine >= bar)
        for leftover in (output, alone):
            leftover.unlink()
    path.unlink()
    return results


def tests(run):
    """The tests that run on every device, as they were compiled."""
    results = {}
    for path in sorted((HERE / "tests").glob("*")) if (HERE / "tests").exists() else []:
        # Without a compiler on PATH nothing is emulated: the sources of the emulator are not packed.
        env = {**os.environ, "PATH": "", "HF_HUB_OFFLINE": "1"}
        # Those of the real model want its weights in fp32; the step before has compared its vectors.
        arguments = ["gpu::", "--nocapture", "--skip", "sentence_transformers"]
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, env=env, cwd=HERE, timeout=POST_WITHIN_S
        )
        summary = [line for line in done.stdout.splitlines() if line.startswith("test result")]
        results[path.name] = {"code": done.returncode, "output": done.stdout[-20000:], "errors": done.stderr[-20000:]}
        run.note("tests", path.name, summary[-1] if summary else f"exit code {done.returncode}", "all pass", done.returncode == 0)
    if not results:
        run.note("tests", "executables", "none are packed")
    return results


def throughput(run):
    """Texts a second: ours, and sentence-transformers in half precision at several batch sizes, in turns."""
    results = {}
    for name in CORPORA:
        texts = corpus(run, name)
        peer = run.peer(run.fast)

        def rate(batch):
            started = time.perf_counter()
            peer.encode(texts, batch_size=batch, show_progress_bar=False)
            return len(texts) / (time.perf_counter() - started)

        peer.encode(texts[:64], batch_size=32, show_progress_bar=False)
        tried = {batch: rate(batch) for batch in run.batches}
        best = max(tried, key=tried.get)
        measured = {batch: [] for batch in {32, 256, best} & set(run.batches)}
        ours = {precision: [] for precision in run.precisions}
        for _ in range(run.rounds):
            for batch, rates in measured.items():
                rates.append(rate(batch))
            for precision, lines in ours.items():
                lines.append(bench(run, name, precision))
        results[name] = {"tried": tried, "best_batch": best, "peer": measured, "ours": ours}
        rates = {batch: statistics.median(rates) for batch, rates in measured.items()}
        for batch, value in sorted(rates.items()):
            mark = ", its best" if batch == best else ""
            run.note("throughput", f"{name}: sentence-transformers {run.fast}, batch {batch}{mark}", f"{value:.0f} texts/s")
        for precision, lines in ours.items():
            value = statistics.median(line["texts_per_s"] for line in lines)
            tokens = statistics.median(line["tokens_per_s"] for line in lines)
            told = f"{value:.0f} texts/s, {tokens:.0f} tokens/s, tokenizing {statistics.median(line['tokenise_share'] for line in lines):.0%}"
            if precision != run.fast:
                run.note("throughput", f"{name}: flow {precision}", told)
                continue
            ratio = value / max(rates.values())
            run.note("throughput", f"{name}: flow {precision}", told)
            run.note("throughput", f"{name}: ratio", f"{ratio:.2f} ×", f"≥ {RATIO_MIN}", run.bar(ratio >= RATIO_MIN))
            if name == "tutorial":
                run.note("throughput", "tutorial: tokens a second", f"{tokens:.0f}", f"≥ {TOKENS_PER_S_AIM} (an aim)", run.bar(tokens >= TOKENS_PER_S_AIM))
    return results


def bench(run, name, precision, *more):
    arguments = ["bench", "encoder", "--corpus", name, "--rounds", 1, "--model", MODEL, "--precision", precision]
    arguments += more or ["--texts", run.texts, "--device", run.device]
    return last_json(must(*arguments))


def cross_encoder_model(run):
    """A cross-encoder of the encoder's weights; its head has random ones, of a size that gives different pairs different scores."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = run.folder / "cross-encoder"
    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_pretrained(str(MODEL), num_labels=1, dtype=torch.float32)
    torch.nn.init.normal_(model.bert.pooler.dense.weight, std=0.1)
    torch.nn.init.normal_(model.classifier.weight, std=0.5)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(str(MODEL)).save_pretrained(folder)
    return folder


def rerank(url, query, texts):
    """The scores of texts, by the route of text-embeddings-inference."""
    body = json.dumps({"query": query, "texts": texts, "raw_scores": True}).encode()
    request = urllib.request.Request(f"{url}/rerank", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=POST_WITHIN_S) as reply:
            scores = {row["index"]: row["score"] for row in json.load(reply)}
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{error}: {error.read(1000).decode(errors='replace')}") from error
    return [scores[index] for index in range(len(texts))]


def reranking(run):
    """Scores of pairs: ours through a flow and its HTTP route, and those of sentence-transformers' CrossEncoder."""
    import numpy as np
    import torch
    from sentence_transformers import CrossEncoder

    folder = cross_encoder_model(run)
    texts = corpus(run, "mixed", 1024)
    queries = texts[:8]
    pairs = [(query, text) for query in queries for text in texts]
    identity = torch.nn.Identity()
    options = {"device": torch_device(run.device), "max_length": 256}

    def theirs(dtype, batch):
        peer = CrossEncoder(str(folder), **options, model_kwargs={"dtype": dtype})
        more = {"batch_size": batch, "show_progress_bar": False, "activation_fn": identity}
        scores = peer.predict(pairs[:batch], **more)
        rates = []
        for _ in range(run.rounds):
            started = time.perf_counter()
            scores = peer.predict(pairs, **more)
            rates.append(len(pairs) / (time.perf_counter() - started))
        return np.asarray(scores, dtype=np.float64), statistics.median(rates)

    reference, _ = theirs(torch.float32, 128)
    half = torch.float16 if run.on_gpu else torch.float32
    peers = {batch: theirs(half, batch)[1] for batch in (32, 128, 512)}
    best = max(peers, key=peers.get)
    results = {"peers": peers}
    for precision in run.precisions:
        with_options = {"model": str(folder), "device": run.device, "precision": precision, "max_length": 256}
        with whole_flow(with_options, "reranker") as (url, _):
            url = url.replace("grpc://", "http://")
            rerank(url, queries[0], texts)
            rates = []
            for _ in range(run.rounds):
                started = time.perf_counter()
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    scores = pool.map(lambda query: rerank(url, query, texts), queries)
                    scores = np.array(list(scores)).ravel()
                rates.append(len(pairs) / (time.perf_counter() - started))
        correlation = float(np.corrcoef(scores, reference)[0, 1])
        difference = float(np.abs(scores - reference).max())
        rate = statistics.median(rates)
        results[precision] = {"rates": rates, "correlation": correlation, "difference_max": difference}
        bar = CORRELATION_MIN[precision]
        told = f"{correlation:.7f}, largest difference {difference:.4f} of scores that spread by {reference.std():.2f}"
        run.note("reranking", f"{precision}: correlation with fp32", told, f"≥ {bar}", correlation >= bar)
        run.note("reranking", f"{precision}: flow over HTTP", f"{rate:.0f} pairs/s")
        if precision == run.fast:
            ratio = rate / peers[best]
            run.note("reranking", f"sentence-transformers {precision}, batch {best}", f"{peers[best]:.0f} pairs/s")
            run.note("reranking", "ratio", f"{ratio:.2f} ×", f"≥ {RATIO_MIN}", run.bar(ratio >= RATIO_MIN))
    shutil.rmtree(folder)
    return results


def latency(run):
    """One text of the tutorial, alone."""
    text = corpus(run, "tutorial", 1)
    peer = run.peer(run.fast)
    times = []
    for _ in range(220):
        started = time.perf_counter()
        peer.encode(text, batch_size=1, show_progress_bar=False)
        times.append((time.perf_counter() - started) * 1e3)
    times = sorted(times[20:])
    ours = bench(run, "tutorial", run.fast)
    theirs = {"p50_ms": times[len(times) // 2], "p99_ms": times[len(times) * 99 // 100]}
    run.note("latency", "one text, flow", f"{ours['p50_ms']:.3f} ms (p99 {ours['p99_ms']:.3f})")
    run.note("latency", "one text, sentence-transformers", f"{theirs['p50_ms']:.3f} ms (p99 {theirs['p99_ms']:.3f})")
    return {"ours": ours, "peer": theirs}


def end_to_end(run):
    """The tutorial through a whole flow, on the device and on the processor."""
    texts = corpus(run, "tutorial", run.documents)
    path = write_texts(run, "tutorial-documents", texts)
    results = {}
    wanted = [("cpu", "f32")] + ([(run.device, "f16")] if run.on_gpu else [])
    for device, precision in wanted:
        with whole_flow({"device": device, "precision": precision}) as (url, _):
            post(url, path, 32)
            rates = [len(texts) / post(url, path, 32) for _ in range(run.rounds)]
        results[device] = rates
        run.note("end to end", f"tutorial through a flow, {device} {precision}", f"{statistics.median(rates):.0f} documents/s")
    peer = run.peer(run.fast)
    started = time.perf_counter()
    peer.encode(texts, batch_size=32, show_progress_bar=False)
    results["peer"] = len(texts) / (time.perf_counter() - started)
    ratio = statistics.median(results[run.device]) / results["peer"]
    run.note("end to end", f"sentence-transformers {run.fast} alone, batch 32", f"{results['peer']:.0f} texts/s")
    run.note("end to end", "ratio", f"{ratio:.2f} ×", f"≥ {END_TO_END_MIN}", run.bar(ratio >= END_TO_END_MIN))
    if run.on_gpu:
        gain = statistics.median(results[run.device]) / statistics.median(results["cpu"])
        run.note("end to end", "GPU against processor", f"{gain:.2f} ×")
    path.unlink()
    return results


def processor(run):
    """Texts a second on this machine's processor: ours in each precision, and sentence-transformers."""
    import torch

    results = {}
    for name, count in (("tutorial", run.texts // 4), ("mixed", run.texts // 16), ("long", run.texts // 64)):
        texts = corpus(run, name, count)
        rates = {}
        for _ in range(2):
            for label, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
                peer = run.processor_peer(dtype)
                for batch in (32, 128):
                    peer.encode(texts[:batch], batch_size=batch, show_progress_bar=False)
                    started = time.perf_counter()
                    peer.encode(texts, batch_size=batch, show_progress_bar=False)
                    rate = len(texts) / (time.perf_counter() - started)
                    rates.setdefault(f"sentence-transformers {label}, batch {batch}", []).append(rate)
            for precision in ("f32", "bf16", "int8"):
                more = ["--device", "cpu", "--texts", len(texts)]
                rate = bench(run, name, precision, *more)["texts_per_s"]
                rates.setdefault(f"flow {precision}", []).append(rate)
        results[name] = rates
        for label, values in rates.items():
            run.note("processor", f"{name}: {label}", f"{statistics.median(values):.0f} texts/s")
    return results


def two_flows(run):
    """Two flows on one device at the same time, against one."""
    texts = corpus(run, "tutorial", run.documents)
    path = write_texts(run, "two-flows", texts)
    options = {"device": run.device, "precision": run.fast}
    with whole_flow(options) as (first, _), whole_flow(options) as (second, _):
        post(first, path, 32)
        post(second, path, 32)
        alone = len(texts) / post(first, path, 32)
        failures = []

        def one(url):
            try:
                post(url, path, 32)
            except RuntimeError as error:
                failures.append(str(error))

        threads = [threading.Thread(target=one, args=[url]) for url in (first, second)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        together = 2 * len(texts) / (time.perf_counter() - started)
    path.unlink()
    run.note("two flows", "one of two, the other idle", f"{alone:.0f} documents/s")
    run.note("two flows", "both at once", f"{together:.0f} documents/s together")
    run.note("two flows", "requests that failed", str(len(failures)), "0", not failures)
    return {"alone": alone, "together": together, "failures": failures}


def out_of_memory(run):
    """With almost no memory left the encoder works on, or says why it does not."""
    if not run.on_gpu:
        run.note("out of memory", "filling the device", "left out: there is no GPU's memory to fill")
        return {}
    import torch

    results = {}
    path = write_texts(run, "out-of-memory", corpus(run, "long", 256))
    for left_mib in (4096, 1024, 640, 128):
        run._peers.clear()
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(torch_device(run.device))
        keep = None
        if free > left_mib << 20:
            keep = torch.empty(free - (left_mib << 20), dtype=torch.uint8, device=torch_device(run.device))
        output = run.folder / "out-of-memory-vectors.jsonl"
        try:
            with encoder({"device": run.device, "precision": "f16"}) as (url, started):
                post(url, path, 256, output)
                outcome, told = "works", started.said("memory")[:5]
        except RuntimeError as error:
            outcome, told = "refuses", str(error)[-600:]
        finally:
            del keep
            torch.cuda.empty_cache()
            output.unlink(missing_ok=True)
        # A crash without a word is what must not be.
        is_fine = outcome == "works" or "memory" in str(told) or "room" in str(told)
        results[left_mib] = {"outcome": outcome, "told": told}
        run.note("out of memory", f"{left_mib} MiB left", outcome, "works, or says why", is_fine)
    path.unlink()
    return results


def bad_devices(run):
    """What is said of devices that are not there."""
    results = {}

    def check(device, parts, env=None, label=None):
        options = json.dumps({"model": str(MODEL), "device": device})
        done = flow("executor", "--uses", "sentence-encoder", "--uses-with", options, env=env, timeout=READY_WITHIN_S)
        met = done.returncode != 0 and all(part in done.stderr for part in parts)
        results[label or device] = {"code": done.returncode, "said": done.stderr[-1000:]}
        run.note("bad devices", label or f"device: {device}", done.stderr.strip().splitlines()[-1][:160], "an error that says why", met)

    check("cuda:99", ["`cuda:99`", "`cpu`"])
    check("cuda:x", ["`cuda:x`"])
    check("tpu", ["`tpu`"])
    check("cuda", ["`cuda`", "`cpu`"], {"CUDA_VISIBLE_DEVICES": "-1"}, "device: cuda, all hidden")
    with encoder({"device": "auto"}, {"CUDA_VISIBLE_DEVICES": "-1"}) as (_, started):
        told = started.said("device chosen")
    results["auto"] = told
    run.note("bad devices", "device: auto, all hidden", told[0][-160:] if told else "nothing was said", "falls back and says why", bool(told))
    return results


def experiments(run):
    """`flow bench devices`."""
    more = ["--side", 512, "--small", 100, "--rounds", 2] if not run.on_gpu else []
    text = must("bench", "devices", *more)
    print(text)
    return {"text": text, "figures": last_json(text)}


STEPS = [machine, parity, tests, throughput, reranking, latency, end_to_end, two_flows, out_of_memory, bad_devices, experiments, processor]


def summary(run, failed):
    head = "# flow on a GPU\n" if run.on_gpu else "# The script, tried out on a processor: nothing here is about GPUs\n"
    lines = [head, "| step | what | value | bar | |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |" for row in run.rows]
    lines += [f"\n{step} broke off: {error}" for step, error in failed]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", choices=[step.__name__ for step in STEPS], action="append", help="only these steps")
    run = Run(options := parser.parse_args())
    unpack()
    failed = []
    for step in STEPS:
        if options.only and step.__name__ not in options.only:
            continue
        print(f"{step.__name__}: {step.__doc__.splitlines()[0]}", flush=True)
        started = time.perf_counter()
        try:
            result = step(run)
        # One step that breaks off must not cost the others: time on such a machine is dear.
        except Exception as error:
            failed.append((step.__name__, f"{type(error).__name__}: {error}"))
            result = {"error": failed[-1][1]}
            print(f"  broke off: {failed[-1][1]}", flush=True)
        seconds = time.perf_counter() - started
        (run.folder / f"{step.__name__}.json").write_text(json.dumps({"seconds": seconds, "result": result}, indent=1) + "\n")
        # After each step, for a run may be broken off.
        text = summary(run, failed)
        (run.folder / "summary.md").write_text(text)
    print("\n" + text)
    missed = [row for row in run.rows if row[4] == "MISSED"]
    sys.exit(1 if missed or failed else 0)


if __name__ == "__main__":
    main()
