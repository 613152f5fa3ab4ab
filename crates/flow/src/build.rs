//! A flow file made by calls.

use std::path::{Path, PathBuf};

use flow_spec::{Checked, LoadError, TextFile, Variables};
use serde_json::{Map, Value, json};

use crate::running::{Running, StartError};

/// What messages call a flow that is in no file.
const NAME: &str = "the flow built here";

/// A flow to be: its gateway's options, and its executors in their order.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    with: Map<String, Value>,
    executors: Vec<Value>,
    program: Option<PathBuf>,
}

/// An executor's place in a flow. Every option of an entry of `executors` can be given with
/// [`option`](Self::option); those that most flows need have methods.
#[derive(Debug, Clone, Default)]
pub struct Node {
    options: Map<String, Value>,
}

impl Flow {
    /// A flow without executors, at any free port.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The port that clients connect to.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.option("port", port)
    }

    /// An option of `with` in a flow file, by the name that it has there.
    #[must_use]
    pub fn option(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.with.insert(key.to_owned(), value.into());
        self
    }

    /// Adds an executor, which follows the one before it unless it says what it needs.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "the name is Jina's, and adds no numbers"
    )]
    pub fn add(mut self, node: Node) -> Self {
        self.executors.push(Value::Object(node.options));
        self
    }

    /// Where the program `flow` is. Without it, it is looked for beside the running program and in the
    /// folder above, and then on `PATH`.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// The flow as the text of a file that `flow up` takes: JSON, which is YAML too.
    #[must_use]
    pub fn text(&self) -> String {
        let file = json!({"jtype": "Flow", "with": self.with, "executors": self.executors});
        format!("{file:#}\n")
    }

    /// Checks the flow as `flow check` checks a file, without starting anything and without looking for its
    /// executors. References such as `${{ ENV.NAME }}` are of use only in files and are problems here.
    ///
    /// # Errors
    /// With everything that is wrong.
    pub fn check(&self) -> Result<Checked, LoadError> {
        let text = self.text();
        let path = Path::new(NAME);
        flow_spec::load(TextFile { path, text: &text }, &Variables::default())
    }

    /// Starts the flow and waits until it is ready.
    ///
    /// # Errors
    /// If it is wrong, if there is no program `flow`, or if a process of it does not come up.
    pub async fn start(self) -> Result<Running, StartError> {
        self.check()?;
        let here = std::env::current_dir().map_err(StartError::Folder)?;
        let flow = self.with_folders_in(&here);
        Running::start(&flow.text(), flow.program).await
    }

    /// The same flow, in which relative folders begin at `base`. In a file they begin where the file is,
    /// and the file of a flow that is built here is a temporary one.
    fn with_folders_in(mut self, base: &Path) -> Self {
        let executors = self.executors.iter_mut().filter_map(Value::as_object_mut);
        for options in executors.chain([&mut self.with]) {
            for key in ["workspace", "volumes"] {
                match options.get_mut(key) {
                    Some(Value::Array(all)) => all.iter_mut().for_each(|it| begin_at(base, it)),
                    Some(value) => begin_at(base, value),
                    None => {}
                }
            }
        }
        self
    }
}

/// Makes a relative path absolute. `~` is for the program to replace.
fn begin_at(base: &Path, value: &mut Value) {
    let path = value.as_str().filter(|it| !it.starts_with('~'));
    let path = path.map(|it| base.join(it).to_string_lossy().into_owned());
    if let Some(path) = path {
        *value = path.into();
    }
}

impl Node {
    /// An executor of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::default().option("name", name)
    }

    /// What runs: a built-in executor, a program, or a path.
    #[must_use]
    pub fn uses(self, uses: &str) -> Self {
        self.option("uses", uses)
    }

    /// What the executor is built with.
    #[must_use]
    pub fn uses_with(self, with: Value) -> Self {
        self.option("uses_with", with)
    }

    /// Whose documents it gets: names of executors, or `gateway`, joined in this order.
    #[must_use]
    pub fn needs<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.option("needs", names.into_iter().collect::<Vec<_>>())
    }

    /// Processes that share the work.
    #[must_use]
    pub fn replicas(self, replicas: u16) -> Self {
        self.option("replicas", replicas)
    }

    /// Parts that the executor's own state is cut into.
    #[must_use]
    pub fn shards(self, shards: u16) -> Self {
        self.option("shards", shards)
    }

    /// Only documents that fulfil this condition go to it.
    #[must_use]
    pub fn when(self, query: Value) -> Self {
        self.option("when", query)
    }

    /// The reply does not wait for it.
    #[must_use]
    pub fn floating(self) -> Self {
        self.option("floating", true)
    }

    /// A request may run twice without harm.
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.option("idempotent", true)
    }

    /// Somebody else has started it, at `host:port`.
    #[must_use]
    pub fn external(self, address: &str) -> Self {
        self.option("external", true).option("host", address)
    }

    /// Any option of an entry of `executors`, by the name that it has there.
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
    fn a_flow_built_is_the_flow_written() {
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
    fn relative_folders_begin_where_the_program_runs() {
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
    fn what_is_wrong_is_told_as_of_a_file() {
        let flow = Flow::new().add(Node::new("a").uses("echo").replicas(0).needs(["b"]));
        let told = flow.check().unwrap_err().to_string();
        assert!(
            told.starts_with("`the flow built here` has 2 problems\n"),
            "{told}"
        );
        assert!(told.contains("executors.a.replicas"), "{told}");
        assert!(told.contains("no executor is named `b`"), "{told}");
    }
}
