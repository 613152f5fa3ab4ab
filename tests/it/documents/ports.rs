//! The ports of a page.
//!
//! Pages use ports such as 54321, which the system may have given to another test's connection. Therefore the tests follow
//! them with ports that it gives to none. These have as many digits, so what is printed keeps its columns.

use std::net::TcpListener;
use std::ops::Range;

use super::block::Block;

/// The first three digits of every port of a page.
const WRITTEN: &str = "543";

/// The last two digits of the ports that pages use.
const USED: Range<u16> = 20..43;

/// Hundreds of ports that the system gives to no connection, unless it is configured otherwise.
const HUNDREDS: Range<u16> = 120..320;

/// The first three digits of the ports that take the place of a page's.
#[derive(Debug, Clone)]
pub(crate) struct Ports(String);

impl Ports {
    /// The page's own: images listen at them.
    pub(crate) fn as_written() -> Self {
        Self(WRITTEN.to_owned())
    }

    /// Ports that no program uses.
    pub(crate) fn free() -> Self {
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        let mut hundreds = HUNDREDS;
        let free = hundreds.find(|hundred| USED.map(|it| hundred * 100 + it).all(is_free));
        Self(free.expect("some ports are free").to_string())
    }

    pub(crate) fn of_block(&self, block: &Block) -> Block {
        Block {
            language: block.language.clone(),
            lines: block.lines.iter().map(|line| self.of_text(line)).collect(),
        }
    }

    /// A text with these ports.
    pub(crate) fn of_text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(WRITTEN) {
            let (before, found) = rest.split_at(at);
            let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
            out += before;
            let begins = !out.ends_with(|it: char| it.is_ascii_digit());
            out += match begins && digits(found) == 5 {
                true => &self.0,
                false => WRITTEN,
            };
            rest = &found[WRITTEN.len()..];
        }
        out + rest
    }
}

#[test]
fn only_ports_of_five_digits_change() {
    let ports = Ports("123".to_owned());
    let check = |text: &str, wanted: &str| assert_eq!(ports.of_text(text), wanted, "{text}");
    check(
        "grpc://localhost:54321, 54342",
        "grpc://localhost:12321, 12342",
    );
    check("154321 543210 543 5432", "154321 543210 543 5432");
    check("54354321", "54354321");
}
