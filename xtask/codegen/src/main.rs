//! `cargo xtask codegen`: generates Rust from `proto/`, without a system `protoc`: the messages into
//! `crates/flow-proto`, the clients and servers of the services into `crates/flow-net`.
//!
//! This is a package of its own, because the compilers of protobuf take longer to build than the rest of xtask.
//!
//! One change is made on the way: where a message contains documents or parameters, the generated struct
//! contains their bytes. On the wire both are a length-delimited field, so a process that only forwards them
//! never decodes them; see `flow_proto::Envelope`. The descriptors that reflection serves keep the
//! real types.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prost::Message;
use prost_types::{FieldDescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};

/// What is compiled, with what it imports.
const FILES: [&str; 3] = ["jina.proto", "docarray_v2.proto", "open_inference.proto"];

/// Fields that are forwarded without being decoded, as (message, field).
const OPAQUE: &[(&str, &str)] = &[
    ("DataRequestProto", "parameters"),
    ("DataRequestProto", "data"),
    ("SingleDocumentRequestProto", "parameters"),
    ("SingleDocumentRequestProto", "document"),
];

/// What is generated, below `target/codegen`, and where it is committed.
const OUTPUTS: &[(&str, &str)] = &[
    ("messages", "crates/flow-proto/src/generated"),
    ("services", "crates/flow-net/src/generated"),
];

fn main() -> anyhow::Result<()> {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => bail!("unknown option `{other}`; the only one is `--check`"),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let fresh = root.join("target/codegen");
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh)?;
    }
    generate(&root.join("proto"), &fresh)?;
    for (name, committed) in OUTPUTS {
        let (fresh, committed) = (fresh.join(name), root.join(committed));
        if check {
            compare(&fresh, &committed)?;
        } else {
            install(&fresh, &committed)?;
        }
    }
    Ok(())
}

fn generate(proto: &Path, out: &Path) -> anyhow::Result<()> {
    let (messages, services) = (out.join("messages"), out.join("services"));
    std::fs::create_dir_all(&messages)?;
    std::fs::create_dir_all(&services)?;
    let described =
        protox::compile(FILES, [proto]).context("the files in proto/ do not compile")?;
    std::fs::write(messages.join("descriptors.bin"), described.encode_to_vec())?;
    let described = with_opaque_documents(described);
    tonic_prost_build::configure()
        .bytes(".")
        .emit_package(true)
        .out_dir(&messages)
        .build_client(false)
        .build_server(false)
        .compile_fds(described.clone())
        .context("the messages could not be generated")?;
    tonic_prost_build::configure()
        .extern_path(".jina", "::flow_proto::jina")
        .extern_path(".docarray", "::flow_proto::docarray")
        .extern_path(".inference", "::flow_proto::inference")
        .emit_package(true)
        .out_dir(&services)
        .build_transport(false)
        .codec_path("crate::grpc::EnvelopeCodec")
        .compile_fds(described)
        .context("the services could not be generated")
}

fn with_opaque_documents(mut set: FileDescriptorSet) -> FileDescriptorSet {
    let messages = set.file.iter_mut().flat_map(|file| &mut file.message_type);
    for message in messages {
        let name = message.name().to_owned();
        for field in &mut message.field {
            if OPAQUE.contains(&(name.as_str(), field.name())) {
                make_opaque(field);
            }
        }
    }
    set
}

fn make_opaque(field: &mut FieldDescriptorProto) {
    field.set_type(Type::Bytes);
    field.type_name = None;
    // Absent and empty differ: a request may carry no documents at all.
    field.proto3_optional = Some(true);
}

fn compare(fresh: &Path, committed: &Path) -> anyhow::Result<()> {
    for path in files(fresh)? {
        let name = path.file_name().context("generated files have names")?;
        let old = std::fs::read(committed.join(name)).unwrap_or_default();
        if old != std::fs::read(&path)? {
            bail!(
                "{} is stale: run `cargo xtask codegen`",
                committed.join(name).display()
            );
        }
    }
    Ok(())
}

fn install(fresh: &Path, committed: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(committed)?;
    for path in files(fresh)? {
        let name = path.file_name().context("generated files have names")?;
        std::fs::copy(&path, committed.join(name))?;
    }
    Ok(())
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    Ok(paths)
}
