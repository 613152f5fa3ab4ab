//! Options of the gateway.

use std::num::NonZeroUsize;
use std::time::Duration;

use indexmap::IndexMap;

use super::unsupported::{NO_STACKS, OFF, OWN, OWN_GATEWAY};
use crate::diagnostics::Spanned;
use crate::forms;
use crate::keys::{Key, ignored, options, refused, row, without_effect};
use crate::values::{
    ClientCertificates, Compression, Console, Cors, Env, ExposedEndpoint, GatewayKind, ModelNames,
    Protocol, Retries, UvicornOptions,
};

const NO_FILES: &str = "the gateway keeps no files";
const FROM_THE_FLOW: &str = "the gateway learns it from `executors`";
const ONE_GATEWAY: &str =
    "`flow up` runs one gateway; `flow export kubernetes --autoscale gateway=2..4` runs several";
const GATEWAY_RELOAD: &str = "it watches the code of a gateway of your own; \
    `reload: true` in `with` follows the flow file";
const NO_GRAPHQL: &str =
    "the gateway speaks no GraphQL; its HTTP routes take the same documents as JSON";
const NO_GATEWAY_IMAGE: &str = "the gateway is a process of this machine, and runs in no container";

options! {
    /// Options of the gateway.
    struct GatewayOptions, GatewayTable GATEWAY {
        host: Vec<Spanned<String>> = row(
            forms::LISTEN_HOSTS,
            "Address on which the gateway listens; `0.0.0.0` lets other machines connect. `flow up \
             --host` overrides it, and the variable `FLOW_LISTEN_HOST` replaces the default.",
        )
            .default("`127.0.0.1`")
            .jina("`0.0.0.0`")
            .example("0.0.0.0");
        port: Vec<Spanned<u16>> = row(
            forms::PORTS_OR_ANY,
            "Port for clients; `0` takes any free port. With several ports, the first is for the \
             first of the protocols, and so on.",
        )
            .aliases(&["ports", "port_in"])
            .old_names(&["port_expose"])
            .default("any free port")
            .example("54321");
        protocol: Vec<Spanned<Protocol>> = row(
            forms::PROTOCOLS,
            "Protocols for clients. Every port serves all of them, whatever is written, unless \
             `only_protocols` is set.",
        )
            .aliases(&["protocols"])
            .default("`grpc`")
            .example("[grpc, http]")
            .jina("a port serves its own protocol only");
        only_protocols: bool = row(
            forms::FLAG,
            "Whether a port refuses requests of other protocols than its own.",
        )
            .default("`false`")
            .example("true")
            .jina(OWN);
        cors: Cors = row(
            forms::CORS,
            "Which web sites may call the gateway from a browser.",
        )
            .default("`false`")
            .example("[https://example.com]")
            .jina("`true` or `false`");
        title: String = row(forms::TEXT, "Title of the OpenAPI document.")
            .default("`flow`")
            .example("Search");
        description: String = row(forms::TEXT, "Description of the OpenAPI document.")
            .example("Finds things.");
        no_debug_endpoints: bool = row(
            forms::FLAG,
            "Whether the routes `/post`, `/status` and `/dry_run` are left out.",
        )
            .default("`false`")
            .example("true");
        no_crud_endpoints: bool = row(
            forms::FLAG,
            "Whether the routes `/index`, `/search`, `/update` and `/delete` are left out, unless \
             an executor offers these endpoints.",
        )
            .default("`false`")
            .example("true");
        console: Console = row(
            forms::CONSOLE,
            "Whether browsers get the console at `/`: a page that shows the running flow, and lets \
             those who may restart, scale and reload it. `read-only` leaves these actions out. See \
             [The console](console.md).",
        )
            .default("`true`")
            .example("read-only")
            .jina(OWN);
        console_port: u16 = row(
            forms::PORT,
            "The only one of the gateway's ports that serves the console, for example one that a firewall \
             opens for operators alone. It must be one of several ports under `port`.",
        )
            .default("all of them")
            .example("9090")
            .jina(OWN);
        expose_endpoints: IndexMap<String, ExposedEndpoint> = row(
            forms::EXPOSED,
            "Endpoints that have a route of their own, with its `http_path`, `methods` and `summary`.",
        )
            .default("empty")
            .example("{/encode: {http_path: /vectors, methods: [POST]}}");
        prefetch: NonZeroUsize = row(
            forms::PREFETCH,
            "Requests of one stream that may be in progress, unless the client asks for another \
             number.",
        )
            .default("`1000`")
            .example("100")
            .jina("`0` sets no limit");
        in_flight_max: NonZeroUsize = row(
            forms::IN_FLIGHT_MAX,
            "Requests of all clients together that may be in progress.",
        )
            .default("`16384`")
            .example("4096")
            .jina(OWN);
        memory_max: NonZeroUsize = row(
            forms::SIZE,
            "Memory for requests and replies in the gateway, in bytes. A quarter of it is for what clients \
             have sent and the gateway has not read. When the rest is used up, it reads no new requests.",
        )
            .default("a quarter of the memory that the process may use, from 256 MiB to 8 GiB")
            .example("1073741824")
            .jina(OWN);
        decompressed_max: NonZeroUsize = row(
            forms::SIZE,
            "Bytes of a compressed request after decompression.",
        )
            .default("`67108864`")
            .example("16777216")
            .jina(OWN);
        documents_max: NonZeroUsize = row(
            forms::SIZE,
            "Documents of one request, chunks and matches included.",
        )
            .default("`250000`")
            .example("10000")
            .jina(OWN);
        tokens_max: NonZeroUsize = row(
            forms::SIZE,
            "Tokens of all texts of one call of the HTTP APIs for vectors, reranking and classification, if the executor counts them.",
        )
            .default("no limit")
            .example("100000")
            .jina(OWN);
        nesting_max: NonZeroUsize = row(
            forms::NESTING_MAX,
            "Levels of chunks and matches in a request, up to 128.",
        )
            .default("`64`")
            .example("8")
            .jina(OWN);
        connections_max: NonZeroUsize = row(
            forms::SIZE,
            "Connections of clients. Idle ones are closed for new ones.",
        )
            .default("10000, or as many as the limit on open files allows")
            .example("500")
            .jina(OWN);
        connections_per_address_max: NonZeroUsize = row(
            forms::SIZE,
            "Connections from one IP address. Further ones are closed at once. Proxies and networks \
             behind one address are many clients with one address, so there is no limit by default.",
        )
            .default("no limit")
            .example("100")
            .jina(OWN);
        connection_age_max: Option<Duration> = row(
            forms::TIMEOUT_SEND,
            "Age at which a connection is closed, a tenth more or less. Its requests in progress end \
             first, and its client connects again. Then load balancers spread connections over new \
             gateways, too. `-1` and `0` set no limit.",
        )
            .default("no limit")
            .example("30min")
            .jina(OWN);
        slow_request: Option<Duration> = row(
            forms::TIMEOUT_SEND,
            "A request that takes as long is logged, with where its time went; `-1` and `0` log none. See \
             [Observing a flow](observing.md).",
        )
            .default("none is logged")
            .example("1s")
            .jina(OWN);
        access_log: bool = row(
            forms::FLAG,
            "Every request is logged, with the client, the sizes and where its time went.",
        )
            .default("`false`")
            .example("true")
            .jina(OWN);
        models: ModelNames = row(
            forms::MODELS,
            "Further names of models for the HTTP APIs, each with the executor that runs the model; `EXECUTOR/ENDPOINT` if it \
             reports no model, and its endpoint is not `/encode`.",
        )
            .default("the names that the executors report")
            .example("{text-embedding-3-small: encoder}")
            .jina(OWN);
        ssl_certfile: String = row(
            forms::TEXT,
            "File with the certificate of the gateway, in PEM format, followed by those that lead \
             to its authority. The port then speaks TLS only. A relative path starts at the flow \
             file, and a changed file is loaded again. See [TLS and API keys](tls-and-keys.md).",
        )
            .default("no TLS")
            .example("gateway.pem")
            .jina("relative paths start at the current folder; changes are not noticed");
        ssl_keyfile: String = row(
            forms::TEXT,
            "File with the private key of `ssl_certfile`, in PEM format.",
        )
            .example("gateway.key");
        ssl_ca_certs: String = row(
            forms::TEXT,
            "File with the certificates of authorities, in PEM format. Clients are then asked \
             for certificates of these authorities.",
        )
            .default("clients are not asked for certificates")
            .example("clients.pem")
            .jina(OWN);
        ssl_client_certs: ClientCertificates = row(
            forms::CLIENT_CERTIFICATES,
            "Whether a client needs a certificate, with `ssl_ca_certs`.",
        )
            .default("`required`")
            .example("optional")
            .jina(OWN);
        uvicorn_kwargs: UvicornOptions = row(
            forms::UVICORN,
            "Options of uvicorn, the server of Jina's gateways for HTTP and WebSocket. `ssl_certfile`, `ssl_keyfile`, \
             `ssl_ca_certs` with `ssl_cert_reqs`, and `limit_concurrency` are options of the gateway here: the last \
             one is `in_flight_max`. Others are warnings.",
        )
            .default("empty")
            .example("{limit_concurrency: 100}")
            .jina("all options of uvicorn");
        api_keys: String = row(
            forms::TEXT,
            "File with the API keys of clients, which `flow key` edits. Requests without a valid \
             key are refused. A relative path starts at the flow file, and a changed file is read \
             again. See [TLS and API keys](tls-and-keys.md#api-keys).",
        )
            .default("requests need no key")
            .example("keys.yml")
            .jina(OWN);
        api_keys_health: bool = row(
            forms::FLAG,
            "Health checks need a key or a token, too.",
        )
            .default("`false`")
            .example("true")
            .jina(OWN);
        jwt_keys: String = row(
            forms::TEXT,
            "The public keys of an identity provider (a JSON Web Key Set): its `https://` address, or a file. \
             Clients may then send JSON Web Tokens that are signed with them, and requests without a valid \
             token or API key are refused. See [TLS and API keys](tls-and-keys.md#tokens-of-an-identity-provider).",
        )
            .default("tokens are not accepted")
            .example("https://id.example.com/keys")
            .jina(OWN);
        jwt_audience: String = row(
            forms::TEXT,
            "The audience (`aud`) that a token must have.",
        )
            .default("any, with a warning")
            .example("search")
            .jina(OWN);
        jwt_issuer: String = row(forms::TEXT, "The issuer (`iss`) that a token must have.")
            .default("any")
            .example("https://id.example.com")
            .jina(OWN);
        jwt_endpoints: String = row(
            forms::TEXT,
            "The claim of a token with the endpoints that it allows: a list, or a text with spaces between \
             them. What does not begin with `/` is left out.",
        )
            .default("a token allows all endpoints")
            .example("scope")
            .jina(OWN);
        jwt_ca_certs: String = row(
            forms::TEXT,
            "File with the certificates of the authorities that are trusted at the address of `jwt_keys`, in PEM \
             format.",
        )
            .default("those that Mozilla trusts")
            .example("ca.pem")
            .jina(OWN);
        uses: GatewayKind = row(
            forms::GATEWAY_USES,
            "`GRPCGateway`, `HTTPGateway`, `WebSocketGateway` or `CompositeGateway`, or the path of a \
             config that says so. It is the protocol for clients if `protocol` is not written.",
        )
            .default("`GRPCGateway`")
            .example("HTTPGateway")
            .jina("also classes of your own");
        env: Env = row(forms::ENV, "Environment variables of the gateway.")
            .default("empty")
            .example("{RUST_BACKTRACE: 1}");
        timeout_ready: Option<Duration> = row(
            forms::TIMEOUT_READY,
            "How long the gateway may take until it serves; `-1` waits forever.",
        )
            .default("`10min`")
            .example("60s")
            .jina("milliseconds only");
        timeout_send: Option<Duration> = row(
            forms::TIMEOUT_SEND,
            "How long one call of an executor may take; `-1` and `0` set no limit.",
        )
            .default("no limit; 10 minutes for calls that no reply waits for")
            .example("2s")
            .jina("milliseconds only");
        retries: Retries = row(
            forms::RETRIES,
            "How often a call that certainly did not run is tried again.",
        )
            .default("`-1`: 6, or once per replica if there are more")
            .example("2")
            .jina("`-1` is at least 3; also repeats calls that may have run");
        compression: Option<Compression> = row(
            forms::COMPRESSION,
            "How requests to executors are compressed. Those over Unix sockets are not, nor those of less than 1 KiB or more \
             than 1 MiB.",
        )
            .default("`NoCompression`")
            .example("Gzip")
            .jina("compresses all requests");
    }
}

pub(crate) const GATEWAY_UNSUPPORTED: &[&Key] = &[
    &without_effect("quiet_error", NO_STACKS),
    &without_effect("workspace", NO_FILES),
    &without_effect("workspace_id", NO_FILES),
    &ignored(
        "name",
        &["gateway"],
        "replies and `needs` know it as `gateway`",
    ),
    &refused("uses_with", &[], OWN_GATEWAY),
    &refused("floating", OFF, "every reply comes from it"),
    &ignored("reload", OFF, GATEWAY_RELOAD),
    &ignored(
        "proxy",
        OFF,
        "flow connects to executors directly, whatever proxies are set",
    ),
    &ignored("replicas", &["1"], ONE_GATEWAY),
    &refused("expose_graphql_endpoint", OFF, NO_GRAPHQL),
    &refused("py_modules", &[], OWN_GATEWAY),
    &refused("graph_description", &["{}"], FROM_THE_FLOW),
    &refused("graph_conditions", &["{}"], FROM_THE_FLOW),
    &refused("deployments_addresses", &["{}"], FROM_THE_FLOW),
    &refused("deployments_metadata", &["{}"], FROM_THE_FLOW),
    &refused("deployments_no_reduce", &["[]"], FROM_THE_FLOW),
];

/// The keys of containers, where they are written for the gateway.
pub(crate) const GATEWAY_CONTAINER: &[&Key] = &[
    &refused("entrypoint", &[], NO_GATEWAY_IMAGE),
    &refused("docker_kwargs", &[], NO_GATEWAY_IMAGE),
    &refused("volumes", &[], NO_GATEWAY_IMAGE),
    &refused("gpus", &[], NO_GATEWAY_IMAGE),
    &without_effect("disable_auto_volume", NO_GATEWAY_IMAGE),
    &without_effect("force_update", NO_GATEWAY_IMAGE),
    &without_effect("pull_latest", NO_GATEWAY_IMAGE),
    &refused("force_network_mode", &["AUTO"], NO_GATEWAY_IMAGE),
];
