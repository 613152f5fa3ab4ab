//! Values of the options of `flow export swarm`.

use std::str::FromStr;

use clap::ValueEnum;
use flow_launch::render::{Publish, SecretFile, TaskResources};

/// The resources of a node's tasks: `cpu:2,memory:2Gi`, or one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskSize(pub(super) TaskResources);

/// A variable that names the file of a secret: `HF_TOKEN_PATH:hub-token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FromSecret(pub(super) SecretFile);

/// How clients reach the gateways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Published {
    /// At every node of the Swarm
    #[default]
    Ingress,
    /// At the nodes where a gateway runs; a node has one gateway at most
    Host,
}

impl From<Published> for Publish {
    fn from(published: Published) -> Self {
        match published {
            Published::Ingress => Self::Ingress,
            Published::Host => Self::Host,
        }
    }
}

impl FromStr for TaskSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut resources = TaskResources::default();
        for part in text.split(',') {
            let (place, value, is_valid) = match part.split_once(':') {
                Some(("cpu", value)) => (&mut resources.cpu, value, is_cpus(value)),
                Some(("cpu-limit", value)) => (&mut resources.cpu_limit, value, is_cpus(value)),
                Some(("memory", value)) => (&mut resources.memory, value, is_size(value)),
                _ => {
                    return Err(format!(
                        "`{part}` is none of `cpu:N`, `cpu-limit:N` and `memory:SIZE`"
                    ));
                }
            };
            if !is_valid {
                return Err(format!(
                    "`{value}` is neither a number of CPUs such as `0.5` nor a size such as `512Mi` or `4Gi`"
                ));
            }
            // Docker's units of memory are powers of two, and have no `i`.
            *place = Some(value.trim_end_matches('i').to_owned());
        }
        Ok(Self(resources))
    }
}

impl FromStr for FromSecret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((variable, secret)) if !variable.is_empty() && !secret.is_empty() => {
                Ok(Self(SecretFile {
                    variable: variable.to_owned(),
                    secret: secret.to_owned(),
                }))
            }
            _ => Err(format!("`{text}` is not of the form `VARIABLE:SECRET`")),
        }
    }
}

fn is_cpus(text: &str) -> bool {
    let is_plain = text.chars().all(|it| it.is_ascii_digit() || it == '.');
    is_plain && text.parse::<f64>().is_ok_and(|it| it > 0.0)
}

/// Whether it is a size with a unit that Docker and Kubernetes read in the same way.
fn is_size(text: &str) -> bool {
    let units = ["Ki", "Mi", "Gi", "Ti"];
    let number = units.iter().find_map(|unit| text.strip_suffix(unit));
    number.is_some_and(|number| number.parse::<u64>().is_ok_and(|it| it > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_cpus_and_sizes_of_memory() {
        let check = |text: &str, expected: Option<[Option<&str>; 3]>| {
            let found = text.parse::<TaskSize>().ok().map(|TaskSize(it)| it);
            let found = found
                .as_ref()
                .map(|it| [&it.cpu, &it.cpu_limit, &it.memory].map(Option::as_deref));
            assert_eq!(found, expected, "{text}");
        };
        check("cpu:2", Some([Some("2"), None, None]));
        check("memory:512Mi", Some([None, None, Some("512M")]));
        let all = "cpu:0.5,cpu-limit:2,memory:4Gi";
        check(all, Some([Some("0.5"), Some("2"), Some("4G")]));
        for wrong in [
            "",
            "cpu",
            "cpu:500m",
            "cpu:0",
            "memory:4G",
            "memory:4",
            "gpu:1",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn the_file_of_a_secret_has_a_variable() {
        let FromSecret(found) = "HF_TOKEN_PATH:hub".parse().unwrap();
        assert_eq!(
            [found.variable, found.secret],
            ["HF_TOKEN_PATH".to_owned(), "hub".to_owned()]
        );
        for wrong in ["", "A", "A:", ":b"] {
            assert!(wrong.parse::<FromSecret>().is_err(), "{wrong}");
        }
    }
}
