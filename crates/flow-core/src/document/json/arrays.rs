//! Reads an array of 32-bit floats from nested lists of numbers.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::super::format::BadDocument;
use super::builder::keep;
use super::values::{bad, to_f32};
use crate::{DataType, Tensor};

/// Reads the array of a field; `None` for a null.
pub(super) struct ArraySeed<'f> {
    pub(super) name: &'static str,
    /// What is wrong with the array, if anything is.
    pub(super) failure: &'f mut Option<BadDocument>,
}

impl<'de> DeserializeSeed<'de> for ArraySeed<'_> {
    type Value = Option<Tensor>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Option<Tensor>, D::Error> {
        let mut array = Array::new(self.name, self.failure);
        let is_null = json.deserialize_any(Level(&mut array, 0))?;
        Ok((!is_null).then(|| array.into_tensor()))
    }
}

/// An array, as it is read.
struct Array<'f> {
    name: &'static str,
    failure: &'f mut Option<BadDocument>,
    /// The length of each dimension; `None` in those whose first list is not at its end.
    shape: Vec<Option<u32>>,
    /// Whether the number of dimensions is known: the first number or the first empty list shows it.
    has_rank: bool,
    buffer: Vec<u8>,
}

impl<'f> Array<'f> {
    fn new(name: &'static str, failure: &'f mut Option<BadDocument>) -> Self {
        Self {
            name,
            failure,
            shape: Vec::new(),
            has_rank: false,
            buffer: Vec::new(),
        }
    }

    fn into_tensor(self) -> Tensor {
        let shape = self.shape.into_iter().map(Option::unwrap_or_default);
        Tensor::from_parts(shape.collect(), DataType::F32.into(), self.buffer.into())
    }

    /// Adds a number that is inside `depth` lists.
    fn push(&mut self, depth: usize, number: f64) -> Result<(), BadDocument> {
        self.has_rank = true;
        if depth != self.shape.len() {
            return Err(self.uneven());
        }
        let number = to_f32(self.name, number)?;
        self.buffer.extend_from_slice(&number.to_le_bytes());
        Ok(())
    }

    /// Begins a list inside `depth` others.
    fn begin(&mut self, depth: usize) -> Result<(), BadDocument> {
        if depth < self.shape.len() {
            return Ok(());
        }
        if self.has_rank {
            return Err(self.uneven());
        }
        self.shape.push(None);
        Ok(())
    }

    /// Ends a list with this many elements.
    fn end(&mut self, depth: usize, len: usize) -> Result<(), BadDocument> {
        self.has_rank = true;
        let len = u32::try_from(len).map_err(|_| bad(format!("`{}` is too long", self.name)))?;
        match self.shape[depth] {
            Some(expected) if expected != len => Err(self.uneven()),
            _ => {
                self.shape[depth] = Some(len);
                Ok(())
            }
        }
    }

    fn uneven(&self) -> BadDocument {
        bad(format!(
            "`{}` must be a list of numbers, or of lists of equal length",
            self.name
        ))
    }
}

/// What is inside this many lists: a number or a list. Yields whether it is a null, which only the whole may be.
struct Level<'a, 'f>(&'a mut Array<'f>, usize);

impl Level<'_, '_> {
    fn kept<E: Error>(&mut self, result: Result<(), BadDocument>) -> Result<(), E> {
        result.map_err(|error| keep(error, self.0.failure))
    }

    fn number<E: Error>(mut self, number: f64) -> Result<bool, E> {
        let pushed = self.0.push(self.1, number);
        self.kept(pushed).map(|()| false)
    }

    fn refuse<E: Error>(mut self) -> Result<bool, E> {
        let error = self.0.uneven();
        self.kept(Err(error)).map(|()| false)
    }
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "numbers of arrays are 32-bit floats"
)]
impl<'de> Visitor<'de> for Level<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<bool, A::Error> {
        let Self(array, depth) = &mut self;
        let (depth, mut len) = (*depth, 0);
        let begun = array.begin(depth);
        begun.map_err(|error| keep(error, array.failure))?;
        while list.next_element_seed(Level(array, depth + 1))?.is_some() {
            len += 1;
        }
        let ended = array.end(depth, len);
        self.kept(ended).map(|()| false)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<bool, E> {
        self.number(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<bool, E> {
        self.number(number as f64)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<bool, E> {
        self.number(number as f64)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        match self.1 {
            0 => Ok(true),
            _ => self.refuse(),
        }
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<bool, E> {
        self.refuse()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<bool, E> {
        self.refuse()
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<bool, A::Error> {
        self.refuse()
    }
}
