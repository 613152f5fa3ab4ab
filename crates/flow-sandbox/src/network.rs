//! Forbids the network: a filter of system calls (seccomp) under which no sockets but Unix sockets can be created. Sockets
//! that the process has already go on working.

use std::collections::BTreeMap;

use libc::{AF_UNIX, EACCES, SYS_io_uring_setup, SYS_socket, SYS_socketpair, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use crate::applied::Applied;
use crate::error::SandboxError;

/// What marks the calls of the x32 interface, which some kernels for x86-64 have beside their own. The filter sees both as calls of
/// the same machine.
const X32: c_long = 0x4000_0000;

/// Forbids sockets of the network to the calling thread and to all that it starts.
pub(crate) fn forbid(applied: &mut Applied) -> Result<(), SandboxError> {
    let program = program().map_err(SandboxError::Filter)?;
    apply_filter(&program).map_err(SandboxError::Seccomp)?;
    applied
        .limits
        .push("Unix sockets only (seccomp)".to_owned());
    Ok(())
}

/// The filter: what it names fails with EACCES, and everything else is allowed. Calls of another kind of machine, such as those
/// for 32 bits, end the process.
fn program() -> Result<BpfProgram, BackendError> {
    let rules = [
        (
            SYS_socket,
            Some(SeccompRule::new(vec![is_no_unix_socket()?])?),
        ),
        (
            SYS_socketpair,
            Some(SeccompRule::new(vec![is_no_unix_socket()?])?),
        ),
        // A ring creates sockets without a system call for each.
        (SYS_io_uring_setup, None),
    ];
    let mut all = BTreeMap::new();
    for (call, rule) in rules {
        let rule: Vec<SeccompRule> = rule.into_iter().collect();
        if cfg!(target_arch = "x86_64") {
            all.insert(call | X32, rule.clone());
        }
        all.insert(call, rule);
    }
    let forbidden = SeccompAction::Errno(EACCES.unsigned_abs());
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(all, SeccompAction::Allow, forbidden, machine)?.try_into()
}

/// Whether the first argument names another family than Unix sockets.
fn is_no_unix_socket() -> Result<SeccompCondition, BackendError> {
    let unix = u64::from(AF_UNIX.unsigned_abs());
    SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, unix)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_without_network_has_unix_sockets_and_those_that_it_had() {
        // Of this thread only: other tests keep theirs.
        let without_network = || {
            let listening = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
            let mut applied = Applied::default();
            forbid(&mut applied).unwrap();
            assert_eq!(applied.limits, ["Unix sockets only (seccomp)"]);

            let denied = [
                TcpListener::bind("127.0.0.1:0").map(drop),
                TcpListener::bind("[::1]:0").map(drop),
                TcpStream::connect(listening.local_addr().unwrap()).map(drop),
                UdpSocket::bind("127.0.0.1:0").map(drop),
            ];
            for it in denied {
                assert_eq!(it.unwrap_err().kind(), ErrorKind::PermissionDenied);
            }
            let (mut one, mut other) = UnixStream::pair().unwrap();
            one.write_all(b"a").unwrap();
            other.read_exact(&mut [0]).unwrap();
            let (mut accepted, _) = listening.accept().unwrap();
            (&client).write_all(b"b").unwrap();
            accepted.read_exact(&mut [0]).unwrap();
        };
        thread::spawn(without_network).join().unwrap();
    }
}
