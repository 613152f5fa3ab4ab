//! Finds the addresses of a gateway, without network access.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Time-out of a connection. The gateway is on this machine, and answers at once.
const ANSWER_MAX: Duration = Duration::from_millis(50);

/// The address for programs on this machine of a server that listens on `address`.
pub(super) fn local(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The addresses for other machines of a server that listens on `address`. Each has been tried.
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

/// The addresses from which this machine would connect to others, at most one of each family.
fn own_ips() -> Vec<IpAddr> {
    // Addresses that are reserved for documentation, so that they are in no network. Connecting a datagram socket chooses
    // a route, and with it the own address, and sends nothing.
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
    // Any port: nothing is sent.
    socket.connect((outside, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_on_all_addresses_has_a_local_one() {
        let check = |address: &str, expected: &str| {
            assert_eq!(local(address.parse().unwrap()).to_string(), expected);
        };
        check("0.0.0.0:7", "127.0.0.1:7");
        check("[::]:7", "127.0.0.1:7");
        check("[::1]:7", "[::1]:7");
        check("10.1.2.3:7", "10.1.2.3:7");
    }

    #[test]
    fn a_server_on_a_local_address_has_no_private_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(private(listener.local_addr().unwrap()), []);
    }

    #[test]
    fn a_private_address_answers() {
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
