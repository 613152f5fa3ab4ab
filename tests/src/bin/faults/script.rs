//! Programs of `tests/peers/` that take commands: a cable between two machines, and a name server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A script that runs, and answers each order with a line.
#[derive(Debug)]
pub(crate) struct Script {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Script {
    /// Starts a script, and waits until it is ready.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut script = Self {
            orders: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        script.expect("ready");
        script
    }

    /// Gives it a new state, which holds when this returns.
    pub(crate) fn tell(&mut self, state: &Value) {
        writeln!(self.orders, "{state}").unwrap();
        self.expect("done");
    }

    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), word, "a script has ended");
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
