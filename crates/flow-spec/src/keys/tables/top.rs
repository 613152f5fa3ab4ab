//! The keys at the top of a flow file.

use super::unsupported::{IN_A_FILE, JCLOUD};
use crate::forms;
use crate::keys::{Key, options, refused, row, without_effect};
use crate::yaml::YamlNode;

options! {
    /// The top of a flow file.
    struct TopOptions, TopTable TOP {
        jtype: String = row(forms::JTYPE_FLOW, "Marks the file as a flow.")
            .default("`Flow`")
            .example("Flow");
        version: () = row(forms::VERSION, "Version of the format.")
            .default("`1`")
            .example("'1'");
        with: YamlNode = row(
            forms::WITH,
            "Options of the flow, and options that the gateway and all executors inherit.",
        )
            .default("empty")
            .example("{port: 54321}");
        gateway: YamlNode = row(
            forms::GATEWAY,
            "Options of the gateway, the process that clients connect to.",
        )
            .default("empty")
            .example("{host: 127.0.0.1}");
        executors: YamlNode = row(forms::EXECUTORS, "The nodes of the flow, in order.")
            .aliases(&["deployments"])
            .old_names(&["pods"])
            .default("none; replies equal requests")
            .example("[{name: encoder, uses: sentence-encoder}]");
    }
}

pub(crate) const TOP_UNSUPPORTED: &[&Key] = &[
    &without_effect("jcloud", JCLOUD),
    &refused("py_modules", &[], IN_A_FILE),
];
