//! What every message is to the codec: traits, shapes as data, and the values that messages are made
//! of. How messages are declared: [`super::declare`].

use super::codec_error::{DecodeError, EncodeError};
use super::primitives::{Uuid, Version};
use super::reader::Reader;
use super::writer::Writer;

/// A value that the wire can carry. `'a` is the frame that it borrows from.
pub trait Wire<'a>: Sized {
    /// What the value looks like, as data.
    const SHAPE: Shape;

    /// Reads the value.
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError>;

    /// Appends the value.
    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError>;
}

/// A message that stands alone: the body of a request or response, or a versioned value.
pub trait Message<'a>: Wire<'a> + Default {
    /// The schema's name.
    const NAME: &'static str;
    /// All versions that can be read and written (what is *served* is in [`super::apis`]).
    const VERSIONS: Versions;
    /// The versions with compact lengths and tagged fields.
    const FLEXIBLE: Versions;

    /// Reads the message; bytes behind it are ignored, as in Kafka.
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let Versions { min, max } = Self::VERSIONS;
        if !Self::VERSIONS.contains(version) {
            return Err(DecodeError::UnknownVersion { message: Self::NAME, version, min, max });
        }
        Self::read(reader, Self::version(version))
    }

    /// Appends the message.
    fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        let Versions { min, max } = Self::VERSIONS;
        if !Self::VERSIONS.contains(version) {
            return Err(EncodeError::UnknownVersion { message: Self::NAME, version, min, max });
        }
        self.write(writer, Self::version(version))
    }

    /// The version with its flexibility.
    fn version(number: i16) -> Version {
        Version { number, flexible: Self::FLEXIBLE.contains(number) }
    }
}

/// The body of a request.
pub trait Request<'a>: Message<'a> {
    /// The API it belongs to.
    const KEY: super::ApiKey;
}

/// The body of a response.
pub trait Response<'a>: Message<'a> {
    /// The API it belongs to.
    const KEY: super::ApiKey;
}

/// A closed range of versions; empty when `min > max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    pub min: i16,
    pub max: i16,
}

impl Versions {
    /// Every version.
    pub const ALL: Versions = Versions::new(0, i16::MAX);
    /// No version.
    pub const NONE: Versions = Versions::new(0, -1);

    /// From `min` to `max`, both included.
    pub const fn new(min: i16, max: i16) -> Self {
        Self { min, max }
    }

    /// Whether `version` lies in the range.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

/// What a value looks like on the wire.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Bool,
    I8,
    I16,
    U16,
    I32,
    U32,
    I64,
    F64,
    Uuid,
    String,
    Bytes,
    Array(&'static Shape),
    Struct(&'static Schema),
    /// The same, or null.
    Nullable(&'static Shape),
}

/// A struct as data: what fuzzers and hostile tests walk over.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    pub name: &'static str,
    pub fields: &'static [Field],
}

/// A field as data.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub versions: Versions,
    pub nullable: Versions,
    pub tag: Option<u32>,
}

macro_rules! scalar {
    ($($type:ty, $method:ident, $shape:ident;)*) => {$(
        impl<'a> Wire<'a> for $type {
            const SHAPE: Shape = Shape::$shape;

            fn read(reader: &mut Reader<'a>, _: Version) -> Result<Self, DecodeError> {
                reader.$method()
            }

            fn write(&self, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
                writer.$method(*self);
                Ok(())
            }
        }
    )*};
}

scalar! {
    bool, bool, Bool;
    i8, i8, I8;
    i16, i16, I16;
    u16, u16, U16;
    i32, i32, I32;
    u32, u32, U32;
    i64, i64, I64;
    f64, f64, F64;
    Uuid, uuid, Uuid;
}

impl<'a> Wire<'a> for &'a str {
    const SHAPE: Shape = Shape::String;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        reader.string(version.flexible)
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        writer.nullable_string(Some(self), version.flexible)
    }
}

impl<'a> Wire<'a> for Option<&'a str> {
    const SHAPE: Shape = Shape::Nullable(&Shape::String);

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        reader.nullable_string(version.flexible)
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        writer.nullable_string(*self, version.flexible)
    }
}

impl<'a> Wire<'a> for &'a [u8] {
    const SHAPE: Shape = Shape::Bytes;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        reader.bytes(version.flexible)
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        writer.nullable_bytes(Some(self), version.flexible)
    }
}

impl<'a> Wire<'a> for Option<&'a [u8]> {
    const SHAPE: Shape = Shape::Nullable(&Shape::Bytes);

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        reader.nullable_bytes(version.flexible)
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        writer.nullable_bytes(*self, version.flexible)
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Vec<T> {
    const SHAPE: Shape = Shape::Array(&T::SHAPE);

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let array = Option::<Vec<T>>::read(reader, version)?;
        let offset = reader.offset();
        array.ok_or(DecodeError::UnexpectedNull { offset, expected: "an array" })
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        writer.length("an array", Some(self.len()), version.flexible)?;
        self.iter().try_for_each(|element| element.write(writer, version))
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Option<Vec<T>> {
    const SHAPE: Shape = Shape::Nullable(&Shape::Array(&T::SHAPE));

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        reader.nullable_array(version.flexible, |reader| T::read(reader, version))
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        match self {
            Some(array) => array.write(writer, version),
            None => writer.length("an array", None, version.flexible),
        }
    }
}

/// Record batches in a response: bytes at hand, or bytes that stay where they are.
///
/// A Fetch answers with `Elsewhere`: the encoder writes the length, leaves the bytes out and notes
/// the place ([`Writer::cut`]); [`super::fetch_response`] turns that into pieces to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records<'a> {
    /// Null on the wire. Apache Kafka answers with empty records, not with null.
    Null,
    /// The batches.
    Bytes(&'a [u8]),
    /// So many bytes, which whoever sends the frame puts in.
    Elsewhere(usize),
}

impl Records<'_> {
    /// No batch at all.
    pub const EMPTY: Records<'static> = Records::Bytes(&[]);

    /// Length of the batches in bytes; null counts as 0.
    pub fn len(&self) -> usize {
        match self {
            Records::Null => 0,
            Records::Bytes(bytes) => bytes.len(),
            Records::Elsewhere(len) => *len,
        }
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this is null on the wire.
    pub fn is_none(&self) -> bool {
        matches!(self, Records::Null)
    }
}

impl<'a> Wire<'a> for Records<'a> {
    const SHAPE: Shape = Shape::Nullable(&Shape::Bytes);

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let bytes = reader.nullable_bytes(version.flexible)?;
        Ok(bytes.map_or(Records::Null, Records::Bytes))
    }

    fn write(&self, writer: &mut Writer, version: Version) -> Result<(), EncodeError> {
        match self {
            Records::Null => writer.nullable_bytes(None, version.flexible),
            Records::Bytes(bytes) => writer.nullable_bytes(Some(bytes), version.flexible),
            Records::Elsewhere(len) => {
                writer.length("records", Some(*len), version.flexible)?;
                writer.cut(*len);
                Ok(())
            }
        }
    }
}
