//! Whether the program at the other end of a connection of this machine runs as the user of the gateway.
//!
//! The control socket of a flow is for its user alone, by the rights of its folder. A TCP port is for all users of the
//! machine, so the console looks up whose socket it talks to. The kernel lists the sockets of this machine with their
//! users in `/proc/net/tcp` and `/proc/net/tcp6`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;

/// The lists of sockets. A program may connect to an IPv4 address by a socket for IPv6.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The state of a socket that is connected. One that its program has closed has another, and counts as the root user's.
const ESTABLISHED: &str = "01";

/// Looks up whether the program at `client`, which is connected to one of the gateway's addresses, runs as the user of
/// this process. What cannot be looked up is not.
///
/// Reads as many lines as the machine has connections, so it may take milliseconds.
pub(super) fn look_up(client: SocketAddr, gateway: &[SocketAddr]) -> bool {
    let own = fs::metadata("/proc/self").map(|it| it.uid());
    let owner = TABLES.iter().find_map(|path| {
        let table = fs::read_to_string(path).ok()?;
        owner(&table, client, gateway)
    });
    own.is_ok_and(|own| owner == Some(own))
}

/// The user of the socket at `client` that is connected to one of these addresses. Pure.
fn owner(table: &str, client: SocketAddr, gateway: &[SocketAddr]) -> Option<u32> {
    let is_gateway = |address: SocketAddr| gateway.iter().any(|it| is_same(*it, address));
    table.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = address(fields.next()?)?;
        let remote = address(fields.next()?)?;
        let state = fields.next()?;
        let user = fields.nth(3)?;
        let is_wanted = is_same(local, client) && is_gateway(remote) && state == ESTABLISHED;
        is_wanted.then(|| user.parse().ok())?
    })
}

fn is_same(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.ip().to_canonical() == b.ip().to_canonical()
}

/// An address as the kernel writes it: words of 32 bits as numbers, and the port, all hexadecimal.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = words.get(8 * at..8 * at + 8)?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        Some(number.to_ne_bytes())
    };
    let ip = match words.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_program_of_the_same_user_is_recognized() {
        for host in ["127.0.0.1", "[::1]"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(format!("{host}:0")) else {
                continue;
            };
            let gateway = [listener.local_addr().unwrap()];
            let stream = TcpStream::connect(gateway[0]).unwrap();
            let client = stream.local_addr().unwrap();
            assert!(look_up(client, &gateway), "{host}");
            let elsewhere = [SocketAddr::new(gateway[0].ip(), 1)];
            assert!(!look_up(client, &elsewhere), "{host}");
            // The program closes its socket, and the kernel still knows the connection.
            drop(stream);
            assert!(!look_up(client, &gateway), "{host}");
        }
    }

    /// As Linux writes it on a little-endian machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn the_owner_is_that_of_the_client_s_end() {
        const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:D431 00000000:0000 0A 00000000:00000000 00:00000000 00000000   500        0 1 1 0 100 0 0 10 0
   1: 0100007F:D431 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   500        0 2 1 0 20 4 30 10 -1
   2: 0100007F:9C40 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1
   3: 0100007F:9C41 0100007F:D431 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1
";
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let gateway = [at(0xd431)];
        assert_eq!(owner(TABLE, at(0x9c40), &gateway), Some(1000));
        assert_eq!(owner(TABLE, at(0x9c41), &gateway), None);
        assert_eq!(owner(TABLE, at(0x9c42), &gateway), None);
        let mapped = "0: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:D431 01 0:0 0:0 0 7 0 1";
        assert_eq!(owner(mapped, at(0x9c40), &gateway), Some(7));
        assert_eq!(owner("nonsense\n\n: : :", at(1), &gateway), None);
    }
}
