//! A node's position in the flow: keys of an entry of `executors`, and of a Deployment.

use flow_core::NodeName;

use crate::diagnostics::Spanned;
use crate::forms;
use crate::keys::{options, row};
use crate::values::ConnectMethod;

options! {
    /// A node's name and its inputs.
    struct EntryOptions, EntryTable ENTRY {
        name: NodeName = row(
            forms::NAME,
            "Name of the node in the flow, in routes, in logs and in metrics.",
        )
            .default("`executor0`, `executor1`, …, by position")
            .example("encoder");
        needs: Vec<Spanned<String>> = row(
            forms::TEXTS,
            "Nodes whose documents this one receives: names of executors, or `gateway` for the \
             documents of the client. Several are joined in this order.",
        )
            .default("the node before it that is not floating")
            .example("[encoder, gateway]")
            .jina("parts are joined in order of arrival");
        method: ConnectMethod = row(
            forms::METHOD,
            "How the node is connected: by `needs` (`add`, `needs`); to every node that nothing \
             needs yet (`needs_all`); beside the flow (`inspect`); or to all inspections \
             (`gather_inspect`).",
        )
            .default("`add`")
            .example("needs_all");
    }
}
