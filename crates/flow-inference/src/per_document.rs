//! Numbers of texts, by document.

/// The sum of each document, from how many texts each has and the number of each text.
pub fn sums(texts_of: &[usize], numbers: &[usize]) -> impl Iterator<Item = usize> {
    let mut rest = numbers.iter();
    let own = move |&texts: &usize| rest.by_ref().take(texts).sum();
    texts_of.iter().map(own)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_document_has_the_sum_of_its_texts() {
        let sums = |texts_of: &[usize], numbers: &[usize]| -> Vec<usize> {
            super::sums(texts_of, numbers).collect()
        };
        assert_eq!(sums(&[1, 0, 2], &[3, 4, 5]), [3, 0, 9]);
        assert_eq!(sums(&[], &[]), [0_usize; 0]);
    }
}
