//! Flow files that are built by method calls.

use std::fmt;
use std::path::{Path, PathBuf};

use flow_spec::{Checked, LoadError, TextFile, Variables};
use serde_json::{Map, Value, json};

use crate::running::{Running, StartError};

/// The name of a built flow in messages.
const NAME: &str = "the flow built here";

/// A flow: the options of its gateway, and its executors in order. `Debug` shows no values, which may be secrets.
#[derive(Clone, Default)]
pub struct Flow {
    with: Map<String, Value>,
    executors: Vec<Value>,
    program: Option<PathBuf>,
}

/// An executor of a flow. [`option`](Self::option) sets any option of an entry of `executors`; common ones have methods of
/// their own. `Debug` shows no values, which may be secrets.
#[derive(Clone, Default)]
pub struct Node {
    options: Map<String, Value>,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("with", &self.with.keys())
            .field("executors", &self.executors.len())
            .field("program", &self.program)
            .finish()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("options", &self.options.keys())
            .finish()
    }
}

impl Flow {
    /// A flow without executors, on a free port.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the port for clients.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.option("port", port)
    }

    /// Sets an option of `with` in a flow file, by its name there.
    #[must_use]
    pub fn option(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.with.insert(key.to_owned(), value.into());
        self
    }

    /// Adds an executor. It follows the one before it, unless it has `needs`.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "the name is Jina's, and adds no numbers"
    )]
    pub fn add(mut self, node: Node) -> Self {
        self.executors.push(Value::Object(node.options));
        self
    }

    /// Sets the path of the program `flow`. By default, it is searched beside the running program, in the folder above, and on
    /// `PATH`.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// The flow as the text of a flow file: JSON, which is valid YAML.
    #[must_use]
    pub fn text(&self) -> String {
        let file = json!({"jtype": "Flow", "with": self.with, "executors": self.executors});
        format!("{file:#}\n")
    }

    /// Checks the flow like `flow check`, without starting anything and without looking for its executors. References such as
    /// `${{ ENV.NAME }}` are supported in files only.
    ///
    /// # Errors
    /// If it has problems. The error lists all of them.
    pub fn check(&self) -> Result<Checked, LoadError> {
        let text = self.text();
        let path = Path::new(NAME);
        flow_spec::load(TextFile { path, text: &text }, &Variables::default())
    }

    /// Starts the flow and waits until it is ready.
    ///
    /// # Errors
    /// If it has problems, if there is no program `flow`, or if one of its processes does not start.
    pub async fn start(self) -> Result<Running, StartError> {
        self.check()?;
        let here = std::env::current_dir().map_err(StartError::Folder)?;
        let flow = self.with_folders_in(&here);
        Running::start(&flow.text(), flow.program).await
    }

    /// Makes relative folders relative to `base`. In a flow file they are relative to the file, which is a temporary one for a
    /// built flow.
    fn with_folders_in(mut self, base: &Path) -> Self {
        let executors = self.executors.iter_mut().filter_map(Value::as_object_mut);
        for options in executors.chain([&mut self.with]) {
            for key in ["workspace", "volumes"] {
                match options.get_mut(key) {
                    Some(Value::Array(all)) => {
                        all.iter_mut().for_each(|it| make_absolute(base, it))
                    }
                    Some(value) => make_absolute(base, value),
                    None => {}
                }
            }
        }
        self
    }
}

/// Makes a relative path absolute. The program replaces `~`.
fn make_absolute(base: &Path, value: &mut Value) {
    let path = value.as_str().filter(|it| !it.starts_with('~'));
    let path = path.map(|it| base.join(it).to_string_lossy().into_owned());
    if let Some(path) = path {
        *value = path.into();
    }
}

impl Node {
    /// An executor with this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::default().option("name", name)
    }

    /// Sets what runs: a built-in executor, a program, or a path.
    #[must_use]
    pub fn uses(self, uses: &str) -> Self {
        self.option("uses", uses)
    }

    /// Sets the options of the executor.
    #[must_use]
    pub fn uses_with(self, with: Value) -> Self {
        self.option("uses_with", with)
    }

    /// Sets the executors, or `gateway`, whose documents it receives, joined in this order.
    #[must_use]
    pub fn needs<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.option("needs", names.into_iter().collect::<Vec<_>>())
    }

    /// Sets the number of processes that share the work.
    #[must_use]
    pub fn replicas(self, replicas: u16) -> Self {
        self.option("replicas", replicas)
    }

    /// Runs it in the process of the gateway, if it is a built-in executor.
    #[must_use]
    pub fn colocate(self, colocate: bool) -> Self {
        self.option("colocate", colocate)
    }

    /// Sets the number of parts of its state.
    #[must_use]
    pub fn shards(self, shards: u16) -> Self {
        self.option("shards", shards)
    }

    /// Sends it only documents that meet this condition.
    #[must_use]
    pub fn when(self, query: Value) -> Self {
        self.option("when", query)
    }

    /// Makes replies not wait for it.
    #[must_use]
    pub fn floating(self) -> Self {
        self.option("floating", true)
    }

    /// States that a request may run twice without harm.
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.option("idempotent", true)
    }

    /// Uses an executor that runs already, at `host:port`.
    #[must_use]
    pub fn external(self, address: &str) -> Self {
        self.option("external", true).option("host", address)
    }

    /// Sets an option of an entry of `executors`, by its name there.
    #[must_use]
    pub fn option(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.options.insert(key.to_owned(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden_in_debug_output() {
        let node = Node::new("a").uses_with(json!({"password": "hunter2"}));
        let flow = Flow::new().option("env", json!({"A": "hunter2"}));
        let shown = format!("{node:?} {:?}", flow.add(node.clone()));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("uses_with"), "{shown}");
    }

    #[test]
    fn a_built_flow_equals_a_written_one() {
        let built = Flow::new()
            .port(54321)
            .option("workspace", "w")
            .add(
                Node::new("a")
                    .uses("echo")
                    .uses_with(json!({"b": [1, "x: y"]}))
                    .replicas(2),
            )
            .add(
                Node::new("c")
                    .uses("echo")
                    .needs(["gateway", "a"])
                    .when(json!({"text": {"$eq": "$x"}})),
            )
            .add(Node::new("d").external("there:5").idempotent())
            .add(Node::new("e").uses("echo").floating().shards(2));
        let written = "
jtype: Flow
with: {port: 54321, workspace: w}
executors:
  - {name: a, uses: echo, uses_with: {b: [1, 'x: y']}, replicas: 2}
  - {name: c, uses: echo, needs: [gateway, a], when: {text: {$eq: '$x'}}}
  - {name: d, external: true, host: 'there:5', idempotent: true}
  - {name: e, uses: echo, floating: true, shards: 2}
";
        let file = TextFile {
            path: Path::new("flow.yml"),
            text: written,
        };
        let written = flow_spec::load(file, &Variables::default()).unwrap();
        assert_eq!(built.check().unwrap().flow, written.flow);
    }

    #[test]
    fn relative_folders_are_relative_to_the_current_folder() {
        let flow = Flow::new()
            .option("workspace", "w")
            .add(
                Node::new("a")
                    .option("workspace", "/abs")
                    .option("volumes", json!(["data:/data:ro", "~/.cache:/cache"])),
            )
            .add(Node::new("b").option("volumes", "data:/data"));
        let flow = flow.with_folders_in(Path::new("/here"));
        assert_eq!(flow.with["workspace"], "/here/w");
        assert_eq!(flow.executors[0]["workspace"], "/abs");
        let volumes = json!(["/here/data:/data:ro", "~/.cache:/cache"]);
        assert_eq!(flow.executors[0]["volumes"], volumes);
        assert_eq!(flow.executors[1]["volumes"], "/here/data:/data");
    }

    #[test]
    fn problems_are_reported_as_for_a_file() {
        let flow = Flow::new().add(Node::new("a").uses("echo").replicas(0).needs(["b"]));
        let error = flow.check().unwrap_err().to_string();
        assert!(
            error.starts_with("`the flow built here` has 2 problems\n"),
            "{error}"
        );
        assert!(error.contains("executors.a.replicas"), "{error}");
        assert!(error.contains("no executor is named `b`"), "{error}");
    }
}
