//! The CUDA devices of containers, as the flow file assigns them to processes. Pure.

use flow_spec::{Env, Gpus};

use crate::spec::round_robin;

/// The devices that a kind of container gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AssignedDevices {
    /// None.
    None,
    /// Replicas take them in turn, by this selection of [`round_robin`].
    InTurn(String),
    /// Each replica gets all of these.
    Named(Vec<String>),
    /// Each replica gets this number of devices.
    Counted(u16),
    /// Each replica gets all devices of its machine.
    All,
}

/// The devices of one replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Share {
    /// Devices with these names; there may be none.
    Named(Vec<String>),
    /// This number of devices.
    Counted(u16),
    /// All.
    All,
}

/// The file does not define the devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDevices {
    /// The number of devices is unknown.
    #[error(
        "`CUDA_VISIBLE_DEVICES: {0}` distributes the machine's devices: set their number with `--devices N`"
    )]
    Uncounted(String),
    /// The selection is not valid.
    #[error(transparent)]
    Choice(#[from] round_robin::DevicesError),
}

impl AssignedDevices {
    /// The devices that `CUDA_VISIBLE_DEVICES` names, and the other variables. A container numbers its devices from 0,
    /// so it must not get the variable, except where that hides all devices.
    pub(crate) fn taken_from(mut env: Env) -> (Self, Env) {
        let value = env.reveal(round_robin::VARIABLE).unwrap_or_default().trim();
        let devices = if round_robin::is_round_robin(value) {
            Self::InTurn(value.to_owned())
        } else {
            let names: Vec<_> = value.split(',').map(|it| it.trim().to_owned()).collect();
            let is_name = |name: &String| {
                name.starts_with("GPU-") || name.starts_with("MIG-") || name.parse::<u16>().is_ok()
            };
            if !names.iter().all(is_name) {
                return (Self::None, env);
            }
            Self::Named(names)
        };
        env.shift_remove(round_robin::VARIABLE);
        (devices, env)
    }

    /// The devices that `gpus` assigns; `None` if it assigns none.
    pub(crate) fn asked_for(gpus: &Gpus) -> Option<Self> {
        match gpus.count {
            _ if !gpus.devices.is_empty() => Some(Self::Named(gpus.devices.clone())),
            Some(count) if count < 0 => Some(Self::All),
            Some(count) => Some(Self::Counted(count.try_into().unwrap_or(u16::MAX))),
            None => None,
        }
    }

    /// The number for each replica; `None` for all devices of its machine.
    pub(crate) fn count(&self) -> Option<usize> {
        match self {
            Self::None => Some(0),
            Self::InTurn(_) => Some(1),
            Self::Named(names) => Some(names.len()),
            Self::Counted(count) => Some((*count).into()),
            Self::All => None,
        }
    }

    /// The devices of a replica, on a machine with this number of devices.
    pub(crate) fn of_replica(&self, replica: u16, count: Option<u16>) -> Result<Share, BadDevices> {
        match self {
            Self::None => Ok(Share::Named(Vec::new())),
            Self::Named(names) => Ok(Share::Named(names.clone())),
            Self::Counted(count) => Ok(Share::Counted(*count)),
            Self::All => Ok(Share::All),
            Self::InTurn(choice) => {
                let chosen = match round_robin::devices(choice, count.map(usize::from)) {
                    Ok(chosen) => chosen.unwrap_or_default(),
                    Err(_) if count.is_none() => return Err(BadDevices::Uncounted(choice.clone())),
                    Err(bad) => return Err(bad.into()),
                };
                let nth = usize::from(replica) % chosen.len().max(1);
                Ok(Share::Named(chosen.get(nth).cloned().into_iter().collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expected: AssignedDevices, stays: bool) {
        let env = Env::from_iter([(round_robin::VARIABLE.to_owned(), value.to_owned())]);
        let (devices, rest) = AssignedDevices::taken_from(env);
        assert_eq!((devices, rest.is_empty()), (expected, !stays), "{value}");
    }

    #[test]
    fn the_variable_becomes_devices_and_does_not_reach_the_container() {
        let names = |names: &[&str]| {
            AssignedDevices::Named(names.iter().map(|it| (*it).to_owned()).collect())
        };
        check("RR", AssignedDevices::InTurn("RR".to_owned()), false);
        check("RR0:2", AssignedDevices::InTurn("RR0:2".to_owned()), false);
        check("0", names(&["0"]), false);
        check("0, GPU-7", names(&["0", "GPU-7"]), false);
    }

    #[test]
    fn a_value_that_hides_all_devices_stays() {
        check("-1", AssignedDevices::None, true);
        check("", AssignedDevices::None, true);
        check("NoDevFiles", AssignedDevices::None, true);
        assert_eq!(
            AssignedDevices::taken_from(Env::new()).0,
            AssignedDevices::None
        );
    }

    #[test]
    fn replicas_take_devices_in_turn_and_start_over() {
        let devices = AssignedDevices::InTurn("RR1:".to_owned());
        let of = |replica| devices.of_replica(replica, Some(3)).unwrap();
        let one = |name: &str| Share::Named(vec![name.to_owned()]);
        assert_eq!([of(0), of(1), of(2)], [one("1"), one("2"), one("1")]);
        assert_eq!(devices.count(), Some(1));
    }

    #[test]
    fn an_unknown_number_of_devices_is_an_error() {
        let check = |value: &str, count, part: &str| {
            let devices = AssignedDevices::InTurn(value.to_owned());
            let error = devices.of_replica(0, count).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check("RR", None, "set their number with `--devices N`");
        check("RR4", Some(4), "names device 4, but there are 4");
        let known = AssignedDevices::InTurn("RRGPU-1,GPU-2".to_owned());
        let second = Share::Named(vec!["GPU-2".to_owned()]);
        assert_eq!(known.of_replica(3, None).unwrap(), second);
    }

    #[test]
    fn gpus_are_named_counted_or_all_of_them() {
        let check = |count: Option<i64>, names: &[&str], expected: Option<AssignedDevices>| {
            let devices = names.iter().map(|it| (*it).to_owned()).collect();
            let gpus = Gpus {
                count,
                devices,
                ..Gpus::default()
            };
            assert_eq!(AssignedDevices::asked_for(&gpus), expected, "{gpus:?}");
        };
        check(None, &[], None);
        check(
            None,
            &["7"],
            Some(AssignedDevices::Named(vec!["7".to_owned()])),
        );
        check(Some(2), &[], Some(AssignedDevices::Counted(2)));
        check(Some(-1), &[], Some(AssignedDevices::All));
        assert_eq!(AssignedDevices::All.count(), None);
        assert_eq!(
            AssignedDevices::Counted(2).of_replica(5, None),
            Ok(Share::Counted(2))
        );
    }
}
