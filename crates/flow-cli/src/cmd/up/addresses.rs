//! Where a gateway can be reached, found without asking anybody outside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// The gateway is on this machine: it answers at once, or not there.
const ANSWER_MAX: Duration = Duration::from_millis(50);

/// Where programs on this machine reach who listens at `address`.
pub(super) fn local(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Where other machines of the network reach who listens at `address`: each one was tried.
pub(super) fn private(address: SocketAddr) -> Vec<SocketAddr> {
    if !address.ip().is_unspecified() {
        return Vec::new();
    }
    let ips = own_ips().into_iter();
    let candidates = ips.map(|ip| SocketAddr::new(ip, address.port()));
    candidates
        .filter(|it| TcpStream::connect_timeout(it, ANSWER_MAX).is_ok())
        .collect()
}

/// The addresses this machine would call the outside from, at most one of each family.
fn own_ips() -> Vec<IpAddr> {
    // Addresses kept for documentation, so they are outside of every network. A datagram socket that
    // is connected has chosen its route and with it its own address, and has sent nothing.
    let outsides: [IpAddr; 2] = [
        Ipv4Addr::new(192, 0, 2, 1).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    ];
    let found = outsides
        .into_iter()
        .filter_map(|outside| own_ip_towards(outside).ok());
    found.filter(|ip| !ip.is_loopback()).collect()
}

fn own_ip_towards(outside: IpAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = match outside {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // Any port: nobody will be called.
    socket.connect((outside, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_listens_everywhere_is_reached_here() {
        let check = |address: &str, expected: &str| {
            assert_eq!(local(address.parse().unwrap()).to_string(), expected);
        };
        check("0.0.0.0:7", "127.0.0.1:7");
        check("[::]:7", "127.0.0.1:7");
        check("[::1]:7", "[::1]:7");
        check("10.1.2.3:7", "10.1.2.3:7");
    }

    #[test]
    fn who_listens_for_this_machine_only_has_no_private_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(private(listener.local_addr().unwrap()), []);
    }

    #[test]
    fn a_private_address_is_one_that_answers() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let address = listener.local_addr().unwrap();
        for found in private(address) {
            assert!(
                !found.ip().is_loopback() && found.port() == address.port(),
                "{found}"
            );
        }
        drop(listener);
        assert_eq!(private(address), []);
    }
}
