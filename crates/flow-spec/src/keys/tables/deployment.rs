//! The keys of a Deployment, and of a gateway's config, around their options.

use super::unsupported::{IN_A_FILE, JCLOUD, OWN_GATEWAY};
use crate::forms;
use crate::keys::{Key, options, refused, row, without_effect};
use crate::values::GatewayKind;
use crate::yaml::YamlNode;

options! {
    /// A Deployment.
    struct DeploymentOptions, DeploymentTable DEPLOYMENT {
        jtype: String = row(forms::JTYPE_DEPLOYMENT, "Marks the mapping as a Deployment.")
            .example("Deployment");
        version: () = row(forms::VERSION, "Version of the format.")
            .default("`1`")
            .example("'1'");
        with: YamlNode = row(forms::DEPLOYMENT_OPTIONS, "Options of the executor.")
            .default("empty")
            .example("{uses: sentence-encoder, replicas: 2}");
    }
}

pub(crate) const DEPLOYMENT_UNSUPPORTED: &[&Key] = &[
    &without_effect("jcloud", JCLOUD),
    &refused("py_modules", &[], IN_A_FILE),
];

options! {
    /// A gateway's config.
    struct GatewayConfigOptions, GatewayConfigTable GATEWAY_CONFIG {
        jtype: GatewayKind = row(forms::JTYPE_GATEWAY, "Kind of the gateway.")
            .example("GRPCGateway")
            .jina("also classes of your own");
        version: () = row(forms::VERSION, "Version of the format.")
            .default("`1`")
            .example("'1'");
        with: YamlNode = row(forms::GATEWAY, "Options of the gateway.")
            .default("empty")
            .example("{port: 54321}");
    }
}

pub(crate) const GATEWAY_CONFIG_UNSUPPORTED: &[&Key] = &[
    &without_effect("metas", "the gateway's name and description are not used"),
    &refused("py_modules", &[], OWN_GATEWAY),
];
