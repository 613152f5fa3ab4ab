//! An executor that tries what a sandbox may forbid, for the tests in `sandbox.rs`. It answers `done`, or with the kind of the error.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use flow_executor::{
    CallError, DocumentArray, Endpoints, Executor, LoadContext, LoadError, Parameters,
};
use serde::Deserialize;

struct Confined;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct With {}

impl Executor for Confined {
    type With = With;

    fn load(_: With, _: &LoadContext) -> Result<Self, LoadError> {
        Ok(Self)
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on("/write", Self::write)
            .on("/child", Self::child)
            .on("/temporary", Self::temporary)
            .on("/connect", Self::connect)
            .on("/listen", Self::listen)
            .on("/datagram", Self::datagram)
            .on("/allocate", Self::allocate)
            .on("/processors", Self::processors)
            .on("/privileges", Self::privileges)
    }
}

impl Confined {
    /// Writes the file `path`.
    fn write(
        &mut self,
        docs: &mut DocumentArray,
        parameters: &Parameters,
    ) -> Result<(), CallError> {
        let path: PathBuf = wanted(parameters, "path")?;
        answer(docs, &outcome(std::fs::write(path, "written")));
        Ok(())
    }

    /// The same in a process that it starts.
    fn child(
        &mut self,
        docs: &mut DocumentArray,
        parameters: &Parameters,
    ) -> Result<(), CallError> {
        let path: PathBuf = wanted(parameters, "path")?;
        let touched = Command::new("touch").arg(path).output();
        let touched = touched.map_err(|error| CallError::new(error.to_string()))?;
        answer(
            docs,
            if touched.status.success() {
                "done"
            } else {
                "failed"
            },
        );
        Ok(())
    }

    /// Writes a temporary file, and says where.
    fn temporary(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        let path = std::env::temp_dir().join("file");
        let said = match std::fs::write(&path, "written") {
            Ok(()) => path.display().to_string(),
            Err(error) => outcome::<()>(Err(error)),
        };
        answer(docs, &said);
        Ok(())
    }

    /// Connects to the port `port` of this machine.
    fn connect(
        &mut self,
        docs: &mut DocumentArray,
        parameters: &Parameters,
    ) -> Result<(), CallError> {
        let port: u16 = wanted(parameters, "port")?;
        answer(docs, &outcome(TcpStream::connect(("127.0.0.1", port))));
        Ok(())
    }

    fn listen(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        answer(docs, &outcome(TcpListener::bind("127.0.0.1:0")));
        Ok(())
    }

    fn datagram(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        answer(docs, &outcome(UdpSocket::bind("127.0.0.1:0")));
        Ok(())
    }

    /// Allocates as many mebibytes as `mebibytes` says, and frees them again.
    fn allocate(
        &mut self,
        docs: &mut DocumentArray,
        parameters: &Parameters,
    ) -> Result<(), CallError> {
        let mebibytes: usize = wanted(parameters, "mebibytes")?;
        let mut memory: Vec<u8> = Vec::new();
        let allocated = memory.try_reserve_exact(mebibytes << 20);
        answer(
            docs,
            if allocated.is_ok() {
                "done"
            } else {
                "out of memory"
            },
        );
        Ok(())
    }

    /// The number of processors that it may use.
    fn processors(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        let processors = std::thread::available_parallelism();
        let processors = processors.map_err(|error| CallError::new(error.to_string()))?;
        answer(docs, &processors.to_string());
        Ok(())
    }

    /// Whether it has given up the right to gain privileges.
    fn privileges(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        let status = std::fs::read_to_string("/proc/self/status");
        let status = status.map_err(|error| CallError::new(error.to_string()))?;
        let line = status.lines().find(|it| it.starts_with("NoNewPrivs:"));
        answer(docs, line.unwrap_or("unknown"));
        Ok(())
    }
}

fn wanted<T: serde::de::DeserializeOwned>(
    parameters: &Parameters,
    name: &str,
) -> Result<T, CallError> {
    let value = parameters.get(name)?;
    value.ok_or_else(|| CallError::new(format!("there is no parameter `{name}`")))
}

fn answer(docs: &mut DocumentArray, text: &str) {
    for doc in docs {
        doc.set_text(text);
    }
}

fn outcome<T>(tried: io::Result<T>) -> String {
    match tried {
        Ok(_) => "done".to_owned(),
        Err(error) => error.kind().to_string(),
    }
}

fn main() -> ExitCode {
    flow_executor::run::<Confined>()
}
