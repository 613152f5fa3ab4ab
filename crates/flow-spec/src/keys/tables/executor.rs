//! Options of executors.

use std::num::NonZeroU16;
use std::time::Duration;

use flow_core::query::Query;
use flow_core::{Secret, Workers};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::unsupported::{NO_CODE, NO_STACKS, NOT_STATEFUL, OFF, OWN, OWN_FOLDERS};
use crate::diagnostics::Spanned;
use crate::forms::{self, Host};
use crate::keys::{Key, ignored, options, refused, row, without_effect};
use crate::spec::program::Program;
use crate::values::{
    Arguments, BatchingRule, Compression, Env, Hedge, InheritEnv, Polling, Protocol, Retries,
    Sandbox,
};

const NO_HEAD: &str = "it belongs to Jina's head processes, and flow has none";
const OTHER_ARRAYS: &str = "flow's executors hand out plain arrays, which every client reads";

options! {
    /// Options of one executor, which are not inherited from `with`.
    struct ExecutorOptions, ExecutorTable EXECUTOR {
        uses: Program = row(
            forms::USES,
            "What runs: a built-in executor, a program, a folder or `config.yml`, a Python class \
             (`executor.py`, `executor.py:Class`, `module:Class`), an image (`docker://…`, `hub://…`), or a \
             config in place.",
        )
            .default("`echo`")
            .example("sentence-encoder")
            .jina("the public hub")
            .for_processes();
        uses_with: Arguments = row(forms::ARGUMENTS, "Options that the executor is built with.")
            .default("empty")
            .example("{device: cpu}")
            .for_processes();
        py_modules: Vec<Spanned<String>> = row(
            forms::TEXTS,
            "Python files or modules; the last one has the class that `uses` names. Other files are \
             imported where it imports them.",
        )
            .default("none")
            .example("[executor.py]");
        port: Vec<Spanned<u16>> = row(
            forms::PORTS,
            "Port of the executor; a list for its replicas. Without `port` and `host`, only \
             the gateway reaches the executor, through a Unix socket.",
        )
            .aliases(&["ports"])
            .default("a Unix socket; with `host`, any free port")
            .example("[9000, 9001]")
            .jina("any free port by default");
        colocate: bool = row(
            forms::FLAG,
            "A built-in executor runs on threads of its own in the process of the gateway, which calls it without a \
             connection: a request takes less time, and the executor is not isolated from the gateway \
             ([Colocation](architecture.md#colocation)).",
        )
            .default("`false`: it has a process of its own")
            .example("true")
            .jina(OWN)
            .for_processes();
        protocol: Vec<Spanned<Protocol>> = row(
            forms::PROTOCOLS,
            "Protocol of the executor. The gateway calls executors over gRPC, so an external executor must speak \
             it. Other executors always do, and another protocol is a warning.",
        )
            .aliases(&["protocols"])
            .default("`grpc`")
            .example("grpc")
            .jina("`http` serves the executor over HTTP");
    }
}

options! {
    /// Options of an executor, which it inherits from `with`.
    struct InheritedOptions, InheritedTable INHERITED {
        uses_metas: Map<String, Value> = row(
            forms::OBJECT,
            "Overrides `metas` of the executor's config.",
        )
            .default("empty")
            .example("{name: my-encoder}")
            .for_processes();
        uses_requests: IndexMap<String, String> = row(
            forms::REQUESTS,
            "Endpoint → method, where it differs from the executor's own binding.",
        )
            .default("empty")
            .example("{/embed: /encode}")
            .for_processes();
        uses_dynamic_batching: IndexMap<String, BatchingRule> = row(
            forms::BATCHING,
            "Endpoint or method → how requests share calls.",
        )
            .default("the executor's own; what waits shares the next call")
            .example("{/encode: {preferred_batch_size: 32, timeout: 10}}")
            .jina("without a rule nothing is batched")
            .for_processes();
        replicas: NonZeroU16 = row(
            forms::COUNT,
            "Number of processes that share the work; with shards, of each shard.",
        )
            .default("`1`")
            .example("3");
        shards: NonZeroU16 = row(
            forms::COUNT,
            "Number of parts into which the executor's own state is cut.",
        )
            .old_names(&["parallel"])
            .default("`1`")
            .example("2")
            .for_processes();
        polling: Polling = row(
            forms::POLLING,
            "Shards that receive a request: one in turn (`ANY`) or all (`ALL`), for all \
             endpoints or by endpoint.",
        )
            .default("`ANY`, and `ALL` for `/search`")
            .example("{/search: ALL, '*': ANY}")
            .for_processes();
        install_requirements: bool = row(
            forms::FLAG,
            "A Python executor runs in a virtual environment of its own, in which the packages of the \
             `requirements.txt` beside it are installed, as with `flow up --install`.",
        )
            .default("`false`")
            .example("true");
        uses_before: Program = row(forms::USES, "Executor that runs before the shards.")
            .example("segmenter")
            .for_processes();
        uses_after: Program = row(
            forms::USES,
            "Executor that runs after the shards, on the replies of all of them.",
        )
            .example("echo")
            .for_processes();
        no_reduce: bool = row(
            forms::FLAG,
            "Several inputs, or replies of several shards, stay separate instead of being \
             merged by document id.",
        )
            .aliases(&["disable_reduce"])
            .default("`false`")
            .example("true")
            .jina("with shards, only the documents of one shard come back");
        when: Option<Query> = row(
            forms::WHEN,
            "Condition on documents; the node receives only those that match.",
        )
            .default("all documents")
            .example("{tags__lang: {$eq: en}}")
            .jina("see [Differences](migrating-from-jina.md#differences)");
        workers: Workers = row(
            forms::WORKERS,
            "Threads of each process that run the executor.",
        )
            .default("`1`")
            .example("auto")
            .jina(OWN)
            .for_processes();
        allow_concurrent: bool = row(
            forms::FLAG,
            "Calls may run at the same time; the same as `workers: auto`.",
        )
            .default("`false`")
            .example("true")
            .for_processes();
        exit_on_exceptions: Vec<Spanned<String>> = row(
            forms::TEXTS,
            "Names of failures after whose reply the process ends; `panic` is one.",
        )
            .default("none")
            .example("[panic]")
            .for_processes();
        external: bool = row(
            forms::FLAG,
            "You start the executor yourself; `host` and `port` say where it is.",
        )
            .default("`false`")
            .example("true");
        host: Vec<Spanned<Vec<Host>>> = row(
            forms::HOSTS,
            "Address on which the executor listens or, if it is external, where it is; several \
             for several replicas. `srv://NAME` is a service whose SRV records say where its \
             replicas are; `srv://SERVER:PORT/NAME` asks that name server \
             ([Replicas in the DNS](operating.md#replicas-in-the-dns)).",
        )
            .default("`127.0.0.1`")
            .example("10.0.0.5")
            .jina("`0.0.0.0`");
        env: Env = row(forms::ENV, "Environment variables of its processes.")
            .default("empty")
            .example("{CUDA_VISIBLE_DEVICES: RR}")
            .for_processes();
        inherit_env: InheritEnv = row(
            forms::INHERIT_ENV,
            "What its processes inherit of the environment of `flow up`: all of it, or what programs need in \
             general ([Security](security.md#the-environment-of-processes) lists that) and these variables. A \
             container inherits nothing.",
        )
            .default("`false` for built-in executors, `true` for others")
            .example("[OPENAI_API_KEY, 'AWS_*']")
            .jina(OWN)
            .for_processes();
        sandbox: Sandbox = row(
            forms::SANDBOX,
            "Limits that the kernel enforces on each of its processes: on memory and processors, on the network, on changes of files. \
             The keys are [below](#the-sandbox-of-an-executor). A container is limited with `docker_kwargs` instead.",
        )
            .default("no limits")
            .example("{memory: 2GiB, cpus: 1.5, no_network: true, read_only: true}")
            .jina(OWN);
        timeout_ready: Option<Duration> = row(
            forms::TIMEOUT_READY,
            "How long a replica may take until it is ready; `-1` waits forever.",
        )
            .default("`10min`")
            .example("60s")
            .jina("milliseconds only");
        timeout_send: Option<Duration> = row(
            forms::TIMEOUT_SEND,
            "How long one call may take; `-1` and `0` set no limit, except that a call that no reply \
             waits for, such as one of a floating executor, then ends after 10 minutes.",
        )
            .default("no limit; 10 minutes if no reply waits for the call")
            .example("2s")
            .jina("milliseconds only");
        retries: Retries = row(
            forms::RETRIES,
            "How often a call that certainly did not run is tried again.",
        )
            .default("`-1`: 6, or once per replica if there are more")
            .example("2")
            .jina("`-1` is at least 3; also repeats calls that may have run");
        slow_start: Option<Duration> = row(
            forms::TIMEOUT_SEND,
            "How long a replica that is new, or that came back, gets fewer requests than the others: at first a \
             tenth, then more and more. For executors that are slow at first, such as with an empty cache.",
        )
            .default("`0`: it gets as many at once")
            .example("30s")
            .jina(OWN);
        workspace: String = row(
            forms::TEXT,
            "Folder for files of the executor; a relative path starts at the flow file.",
        )
            .default("the flow's `workspace`")
            .example("data")
            .for_processes();
        floating: bool = row(
            forms::FLAG,
            "The reply does not wait for the node, and its result is dropped.",
        )
            .default("`false`")
            .example("true");
        idempotent: bool = row(
            forms::FLAG,
            "A request may run twice without harm, so one that was lost with its process is \
             tried again.",
        )
            .default("`false`")
            .example("true")
            .jina(OWN);
        hedge: Hedge = row(
            forms::HEDGE,
            "After what time without an answer a request is also sent to another replica; the first answer counts, and the \
             other call is cancelled. A percentage stands for the time in which that share of the node's calls is answered. At \
             most one request in twenty is sent twice. Only for executors that are `idempotent`.",
        )
            .default("never")
            .example("95%")
            .jina(OWN);
        grpc_metadata: Secret<Vec<(String, String)>> = row(
            forms::METADATA,
            "gRPC metadata of each call to the executor.",
        )
            .default("empty")
            .example("{tenant: a}");
        compression: Option<Compression> = row(
            forms::COMPRESSION,
            "How requests to the executor are compressed. Those over Unix sockets are not, nor those of less than 1 KiB or more \
             than 1 MiB.",
        )
            .default("`NoCompression`")
            .example("Gzip")
            .jina("compresses all requests");
        tls: bool = row(
            forms::FLAG,
            "The external executor is called with TLS, as with an address that begins with \
             `grpcs://`.",
        )
            .default("`false`")
            .example("true");
        tls_ca_certs: String = row(
            forms::TEXT,
            "File with the certificates of the authorities that are trusted, in PEM format. \
             A relative path starts at the flow file.",
        )
            .default("the authorities that Mozilla trusts")
            .example("ca.pem")
            .jina(OWN);
        tls_certfile: String = row(
            forms::TEXT,
            "File with a certificate that the external executor asks for, in PEM format.",
        )
            .example("client.pem")
            .jina(OWN);
        tls_keyfile: String = row(
            forms::TEXT,
            "File with the private key of `tls_certfile`, in PEM format.",
        )
            .example("client.key")
            .jina(OWN);
        tls_server_name: String = row(
            forms::TEXT,
            "Name in the certificate of the external executor.",
        )
            .default("the host of its address")
            .example("encoder.internal")
            .jina(OWN);
    }
}

pub(crate) const EXECUTOR_UNSUPPORTED: &[&Key] = &[
    &without_effect("quiet_error", NO_STACKS),
    &without_effect("workspace_id", OWN_FOLDERS),
    &ignored("output_array_type", &["numpy"], OTHER_ARRAYS),
    &ignored("reload", OFF, NO_CODE),
    &without_effect("raft_configuration", NOT_STATEFUL),
    &refused("uses_before_address", &[], NO_HEAD),
    &refused("uses_after_address", &[], NO_HEAD),
    &refused("connection_list", &[], NO_HEAD),
];
