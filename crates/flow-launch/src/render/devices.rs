//! The CUDA devices of containers, from what the flow file says to processes. Pure.

use flow_spec::Env;

use crate::rr;

/// The devices that a kind of container gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Devices {
    /// None.
    None,
    /// The replicas take one each in turn, by this choice of [`rr`].
    InTurn(String),
    /// Each replica gets all of these.
    Named(Vec<String>),
}

/// The devices cannot be told from the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDevices {
    /// Nobody has said how many there are.
    #[error(
        "`CUDA_VISIBLE_DEVICES: {0}` shares out the machine's devices: say how many it has with `--devices N`"
    )]
    Uncounted(String),
    /// The choice is none.
    #[error(transparent)]
    Choice(#[from] rr::BadDevices),
}

impl Devices {
    /// The devices that `CUDA_VISIBLE_DEVICES` names, and the other variables. In a container the devices
    /// it was given are numbered from 0 anew, so the variable must not reach it; one that hides all devices
    /// stays.
    pub(crate) fn taken_from(mut env: Env) -> (Self, Env) {
        let value = env.get(rr::VARIABLE).map_or("", String::as_str).trim();
        let devices = if rr::shares(value) {
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
        env.shift_remove(rr::VARIABLE);
        (devices, env)
    }

    /// How many each replica gets.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::None => 0,
            Self::InTurn(_) => 1,
            Self::Named(names) => names.len(),
        }
    }

    /// The names of those that a replica gets, on a machine with so many.
    pub(crate) fn of_replica(
        &self,
        replica: u16,
        count: Option<u16>,
    ) -> Result<Vec<String>, BadDevices> {
        match self {
            Self::None => Ok(Vec::new()),
            Self::Named(names) => Ok(names.clone()),
            Self::InTurn(choice) => {
                let chosen = match rr::devices(choice, count.map(usize::from)) {
                    Ok(chosen) => chosen.unwrap_or_default(),
                    Err(_) if count.is_none() => return Err(BadDevices::Uncounted(choice.clone())),
                    Err(bad) => return Err(bad.into()),
                };
                let nth = usize::from(replica) % chosen.len().max(1);
                Ok(chosen.get(nth).cloned().into_iter().collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expected: Devices, stays: bool) {
        let env = Env::from_iter([(rr::VARIABLE.to_owned(), value.to_owned())]);
        let (devices, rest) = Devices::taken_from(env);
        assert_eq!((devices, rest.is_empty()), (expected, !stays), "{value}");
    }

    #[test]
    fn the_variable_becomes_devices_and_does_not_reach_the_container() {
        let names =
            |names: &[&str]| Devices::Named(names.iter().map(|it| (*it).to_owned()).collect());
        check("RR", Devices::InTurn("RR".to_owned()), false);
        check("RR0:2", Devices::InTurn("RR0:2".to_owned()), false);
        check("0", names(&["0"]), false);
        check("0, GPU-7", names(&["0", "GPU-7"]), false);
    }

    #[test]
    fn a_value_that_hides_all_devices_stays() {
        check("-1", Devices::None, true);
        check("", Devices::None, true);
        check("NoDevFiles", Devices::None, true);
        assert_eq!(Devices::taken_from(Env::new()).0, Devices::None);
    }

    #[test]
    fn replicas_take_devices_in_turn_and_start_over() {
        let devices = Devices::InTurn("RR1:".to_owned());
        let of = |replica| devices.of_replica(replica, Some(3)).unwrap();
        assert_eq!([of(0), of(1), of(2)], [["1"], ["2"], ["1"]]);
        assert_eq!(devices.count(), 1);
    }

    #[test]
    fn devices_that_nobody_has_counted_are_asked_for() {
        let check = |value: &str, count, part: &str| {
            let devices = Devices::InTurn(value.to_owned());
            let error = devices.of_replica(0, count).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check("RR", None, "say how many it has with `--devices N`");
        check("RR4", Some(4), "names device 4, but there are 4");
        let known = Devices::InTurn("RRGPU-1,GPU-2".to_owned());
        assert_eq!(known.of_replica(3, None).unwrap(), ["GPU-2"]);
    }
}
