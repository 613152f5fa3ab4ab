//! Values of options that count something, from 1.

use std::str::FromStr;

/// Parses a count. The error says what a count is; that of the number's type does not.
pub(crate) fn count<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| match text.parse::<u64>() {
        Ok(0) => "needs to be 1 or more".to_owned(),
        Ok(_) => "is too large".to_owned(),
        Err(_) => "needs to be a whole number, 1 or more".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    #[test]
    fn a_count_is_a_number_from_1() {
        let check = |text: &str, expected: Result<u16, &str>| {
            let found = count(text).map(NonZeroU16::get);
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        };
        check("1", Ok(1));
        check("0", Err("needs to be 1 or more"));
        check("70000", Err("is too large"));
        check("-1", Err("needs to be a whole number, 1 or more"));
        check("two", Err("needs to be a whole number, 1 or more"));
    }
}
