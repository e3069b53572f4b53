//! How a message is declared: once, as a list of fields; both directions come out of it.
//!
//! ```text
//! wire! {
//!     /// What the message is for.
//!     request FetchRequest<'a> for Fetch, versions 4-18, flexible 12 {
//!         cluster_id: Option<&'a str> = None, in 12+, tag 0, else ignored;
//!         max_wait_ms: i32;
//!         topics: Vec<FetchTopic<'a>>;
//!     }
//!     struct FetchTopic<'a> { ... }
//! }
//! ```
//!
//! * `request`, `response`: the body of an API, with its key. `data`: a versioned value outside of
//!   requests. `struct`: a part of one of these.
//! * `= value`: the default, where it is not the type's own (0, "", false, empty).
//! * `in 12+`, `in 0-12`: the versions that carry the field, if not all. At other versions a decoded
//!   field has its default.
//! * `nullable 3+`: the versions that allow null, if not all that carry the (`Option`) field.
//! * `tag 0`: a tagged field. It is written only when it differs from its default.
//! * `else ignored`: a value that the version cannot carry is dropped; without these words writing
//!   it is an error ([`FieldNotInVersion`](super::EncodeError::FieldNotInVersion)).

/// Declares messages; the module's page explains the words.
macro_rules! wire {
    ($(
        $(#[$doc:meta])*
        $kind:ident $name:ident $(<$life:lifetime>)?
        $(for $key:ident,)?
        $(versions $min:literal - $max:literal $(, flexible $flexible:literal)?)?
        { $($fields:tt)* }
    )*) => {$(
        $crate::wire::declare::wire_struct! {
            [$(#[$doc])*] $name [$($life)? 'a] [$(<$life>)?] $($fields)*
        }
        $crate::wire::declare::wire_message! {
            $kind $name [$($life)? 'a] [$(<$life>)?]
            [$($key)?] [$($min, $max)?] [$($($flexible)?)?]
        }
    )*};
}

/// The impls that a request, a response or other versioned data has beyond its parts.
macro_rules! wire_message {
    (struct $($ignored:tt)*) => {};
    (request $name:ident [$life:lifetime $($spare:lifetime)?] [$($generics:tt)*] [$key:ident] $($versions:tt)*) => {
        $crate::wire::declare::wire_message! { data $name [$life] [$($generics)*] [] $($versions)* }
        impl<$life> $crate::wire::schema::Request<$life> for $name $($generics)* {
            const KEY: $crate::wire::ApiKey = $crate::wire::ApiKey::$key;
        }
    };
    (response $name:ident [$life:lifetime $($spare:lifetime)?] [$($generics:tt)*] [$key:ident] $($versions:tt)*) => {
        $crate::wire::declare::wire_message! { data $name [$life] [$($generics)*] [] $($versions)* }
        impl<$life> $crate::wire::schema::Response<$life> for $name $($generics)* {
            const KEY: $crate::wire::ApiKey = $crate::wire::ApiKey::$key;
        }
    };
    (data $name:ident [$life:lifetime $($spare:lifetime)?] [$($generics:tt)*] [] [$min:literal, $max:literal] [$($flexible:literal)?]) => {
        impl<$life> $crate::wire::schema::Message<$life> for $name $($generics)* {
            const NAME: &'static str = stringify!($name);
            const VERSIONS: $crate::wire::schema::Versions =
                $crate::wire::schema::Versions::new($min, $max);
            const FLEXIBLE: $crate::wire::schema::Versions =
                $crate::wire::declare::wire_flexible!($($flexible)?);
        }
    };
}

/// The flexible versions: from a number on, or none.
macro_rules! wire_flexible {
    () => {
        $crate::wire::schema::Versions::NONE
    };
    ($from:literal) => {
        $crate::wire::schema::Versions::new($from, i16::MAX)
    };
}

/// The versions of a field: all, from a number on, or from one to another.
macro_rules! wire_versions {
    () => {
        $crate::wire::schema::Versions::ALL
    };
    ($min:literal) => {
        $crate::wire::schema::Versions::new($min, i16::MAX)
    };
    ($min:literal $max:literal) => {
        $crate::wire::schema::Versions::new($min, $max)
    };
}

/// A field's default: the one declared or its type's own.
macro_rules! wire_default {
    () => {
        Default::default()
    };
    ($value:expr) => {
        $value
    };
}

/// A tag as data.
macro_rules! wire_tag {
    () => {
        None
    };
    ($tag:literal) => {
        Some($tag)
    };
}

/// Whether a value that the version cannot carry is an error.
macro_rules! wire_is_ignored {
    () => {
        false
    };
    (ignored) => {
        true
    };
}

/// Reads an untagged field; tagged ones are read behind all others.
macro_rules! wire_read {
    ([] [$($nullable:literal)*] $in:expr, $version:expr, $reader:expr, $place:expr) => {
        if $in.contains($version.number) {
            $place = $crate::wire::schema::Wire::read($reader, $version)?;
            $crate::wire::declare::wire_check_null! { [$($nullable)*] $version, $place,
                return Err($crate::wire::DecodeError::UnexpectedNull {
                    offset: $reader.offset(),
                    expected: "a value that is not null",
                })
            }
        }
    };
    ([$tag:literal] $($ignored:tt)*) => {};
}

/// Leaves when a field is null at a version that does not allow it.
macro_rules! wire_check_null {
    ([] $($ignored:tt)*) => {};
    ([$($nullable:literal)+] $version:expr, $place:expr, $leave:expr) => {
        let nullable = $crate::wire::declare::wire_versions!($($nullable)+);
        if !nullable.contains($version.number) && $place.is_none() {
            $leave;
        }
    };
}

/// Writes an untagged field; tagged ones are written behind all others.
macro_rules! wire_write {
    ([] [$($nullable:literal)*] $in:expr, $version:expr, $writer:expr, $place:expr, $message:expr, $field:expr) => {
        if $in.contains($version.number) {
            $crate::wire::declare::wire_check_null! { [$($nullable)*] $version, $place,
                return Err($crate::wire::EncodeError::UnexpectedNull {
                    message: $message,
                    field: $field,
                    version: $version.number,
                })
            }
            $crate::wire::schema::Wire::write(&$place, $writer, $version)?;
        }
    };
    ([$tag:literal] $($ignored:tt)*) => {};
}

/// A struct with its default and both directions.
macro_rules! wire_struct {
    (
        [$(#[$doc:meta])*] $name:ident [$life:lifetime $($spare:lifetime)?] [$($generics:tt)*]
        $(
            $(#[$field_doc:meta])*
            $field:ident: $type:ty
            $(= $default:expr)?
            $(, in $min:literal $(- $max:literal)? $(+)?)?
            $(, nullable $null_min:literal $(- $null_max:literal)? $(+)?)?
            $(, tag $tag:literal)?
            $(, else $ignored:ident)?
            ;
        )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name $($generics)* {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $($generics)* Default for $name $($generics)* {
            fn default() -> Self {
                Self { $($field: $crate::wire::declare::wire_default!($($default)?),)* }
            }
        }

        impl<$life> $crate::wire::schema::Wire<$life> for $name $($generics)* {
            const SHAPE: $crate::wire::schema::Shape =
                $crate::wire::schema::Shape::Struct(&$crate::wire::schema::Schema {
                    name: stringify!($name),
                    fields: &[$($crate::wire::schema::Field {
                        name: stringify!($field),
                        shape: <$type as $crate::wire::schema::Wire<$life>>::SHAPE,
                        versions: $crate::wire::declare::wire_versions!($($min $($max)?)?),
                        nullable: $crate::wire::declare::wire_versions!(
                            $($null_min $($null_max)?)?
                        ),
                        tag: $crate::wire::declare::wire_tag!($($tag)?),
                    },)*],
                });

            #[allow(unused_mut, unused_variables)]
            fn read(
                reader: &mut $crate::wire::Reader<$life>,
                version: $crate::wire::primitives::Version,
            ) -> Result<Self, $crate::wire::DecodeError> {
                let mut out = Self::default();
                $($crate::wire::declare::wire_read! {
                    [$($tag)?] [$($null_min $($null_max)?)?]
                    $crate::wire::declare::wire_versions!($($min $($max)?)?),
                    version, reader, out.$field
                })*
                if version.flexible {
                    reader.tagged_fields(|tag, reader| {
                        $($crate::wire::declare::wire_read_tagged! {
                            [$($tag)?]
                            $crate::wire::declare::wire_versions!($($min $($max)?)?),
                            tag, version, reader, out.$field
                        })*
                        Ok(false)
                    })?;
                }
                Ok(out)
            }

            #[allow(unused_mut, unused_variables)]
            fn write(
                &self,
                writer: &mut $crate::wire::Writer,
                version: $crate::wire::primitives::Version,
            ) -> Result<(), $crate::wire::EncodeError> {
                let mut tagged = 0u32;
                $($crate::wire::declare::wire_absent! {
                    [$($min $($max)?)?] [$($tag)?] [$($default)?] [$($ignored)?]
                    tagged, version, self.$field, $type, stringify!($name), stringify!($field)
                })*
                $($crate::wire::declare::wire_write! {
                    [$($tag)?] [$($null_min $($null_max)?)?]
                    $crate::wire::declare::wire_versions!($($min $($max)?)?),
                    version, writer, self.$field, stringify!($name), stringify!($field)
                })*
                if version.flexible {
                    writer.unsigned_varint(tagged);
                    $($crate::wire::declare::wire_write_tagged! {
                        [$($tag)?] [$($default)?]
                        $crate::wire::declare::wire_versions!($($min $($max)?)?),
                        version, writer, self.$field, $type
                    })*
                }
                Ok(())
            }
        }
    };
}

/// Counts a tagged field that must be written; refuses a value that the version cannot carry.
macro_rules! wire_absent {
    ([] [] $($ignored:tt)*) => {};
    (
        [$($in:literal)*] [$($tag:literal)?] [$($default:expr)?] [$($ignored:ident)?]
        $tagged:ident, $version:expr, $place:expr, $type:ty, $message:expr, $field:expr
    ) => {
        if !$crate::wire::declare::wire_versions!($($in)*).contains($version.number) {
            if !$crate::wire::declare::wire_is_ignored!($($ignored)?) {
                let default: $type = $crate::wire::declare::wire_default!($($default)?);
                if $place != default {
                    return Err($crate::wire::EncodeError::FieldNotInVersion {
                        message: $message,
                        field: $field,
                        version: $version.number,
                    });
                }
            }
        } else {
            $crate::wire::declare::wire_count_tagged! {
                [$($tag)?] [$($default)?] $tagged, $place, $type
            }
        }
    };
}

/// Counts a tagged field that differs from its default.
macro_rules! wire_count_tagged {
    ([] $($ignored:tt)*) => {};
    ([$tag:literal] [$($default:expr)?] $tagged:ident, $place:expr, $type:ty) => {
        let default: $type = $crate::wire::declare::wire_default!($($default)?);
        if $place != default {
            $tagged += 1;
        }
    };
}

/// Reads a tagged field, if its turn has come.
macro_rules! wire_read_tagged {
    ([] $($ignored:tt)*) => {};
    ([$tag:literal] $in:expr, $got:expr, $version:expr, $reader:expr, $place:expr) => {
        if $got == $tag && $in.contains($version.number) {
            $place = $crate::wire::schema::Wire::read($reader, $version)?;
            return Ok(true);
        }
    };
}

/// Writes a tagged field that differs from its default.
macro_rules! wire_write_tagged {
    ([] $($ignored:tt)*) => {};
    ([$tag:literal] [$($default:expr)?] $in:expr, $version:expr, $writer:expr, $place:expr, $type:ty) => {
        if $in.contains($version.number) {
            let default: $type = $crate::wire::declare::wire_default!($($default)?);
            if $place != default {
                $writer.tagged_field($tag, |writer| {
                    $crate::wire::schema::Wire::write(&$place, writer, $version)
                })?;
            }
        }
    };
}

/// Makes a struct nullable: a marker byte, negative for null, stands before it.
macro_rules! wire_nullable {
    ($name:ident $(<$life:lifetime>)?) => {
        $crate::wire::declare::wire_nullable! { @ $name [$($life)? 'a] [$(<$life>)?] }
    };
    (@ $name:ident [$life:lifetime $($spare:lifetime)?] [$($generics:tt)*]) => {
        impl<$life> $crate::wire::schema::Wire<$life> for Option<$name $($generics)*> {
            const SHAPE: $crate::wire::schema::Shape = $crate::wire::schema::Shape::Nullable(
                &<$name $($generics)* as $crate::wire::schema::Wire<$life>>::SHAPE,
            );

            fn read(
                reader: &mut $crate::wire::Reader<$life>,
                version: $crate::wire::primitives::Version,
            ) -> Result<Self, $crate::wire::DecodeError> {
                if reader.i8()? < 0 {
                    return Ok(None);
                }
                $crate::wire::schema::Wire::read(reader, version).map(Some)
            }

            fn write(
                &self,
                writer: &mut $crate::wire::Writer,
                version: $crate::wire::primitives::Version,
            ) -> Result<(), $crate::wire::EncodeError> {
                match self {
                    None => {
                        writer.i8(-1);
                        Ok(())
                    }
                    Some(value) => {
                        writer.i8(1);
                        $crate::wire::schema::Wire::write(value, writer, version)
                    }
                }
            }
        }
    };
}

pub(crate) use {
    wire, wire_absent, wire_check_null, wire_count_tagged, wire_default, wire_flexible,
    wire_is_ignored, wire_message, wire_nullable, wire_read, wire_read_tagged, wire_struct,
    wire_tag, wire_versions, wire_write, wire_write_tagged,
};
