//! Topic ids: 16 bytes, printed as Kafka prints them (KIP-516).

use std::fmt;
use std::str::FromStr;

/// Id of a topic, given at creation and never used again for another topic, not even of the same name.
///
/// Sixteen bytes in network order; the text form is base64url without padding, 22 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId([u8; 16]);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const TEXT_LEN: usize = 22;

impl TopicId {
    /// The wire's "no topic id". Reserved, never given to a topic.
    pub const ZERO: TopicId = TopicId([0; 16]);
    /// The id Kafka reserves for its own metadata log. Never given to a topic.
    pub const METADATA: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    #[inline]
    pub const fn from_bytes(bytes: [u8; 16]) -> TopicId {
        TopicId(bytes)
    }

    #[inline]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    #[inline]
    pub const fn is_zero(&self) -> bool {
        u128::from_be_bytes(self.0) == 0
    }

    /// True for the two ids that the protocol keeps for itself.
    #[inline]
    pub const fn is_reserved(&self) -> bool {
        u128::from_be_bytes(self.0) <= u128::from_be_bytes(Self::METADATA.0)
    }

    /// Makes a version 4 UUID of random bytes; `None` when the result is not fit for a topic.
    ///
    /// Not fit are the reserved ids, and those whose text starts with `-`, which command line tools
    /// would take for an option. Draw again then; one draw in 64 is refused.
    pub const fn from_random(mut bytes: [u8; 16]) -> Option<TopicId> {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let id = TopicId(bytes);
        let first_char = ALPHABET[(bytes[0] >> 2) as usize];
        if id.is_reserved() || first_char == b'-' { None } else { Some(id) }
    }

    /// A new random id from the system's generator.
    ///
    /// # Errors
    /// When the kernel refuses random bytes.
    pub fn random() -> std::io::Result<TopicId> {
        loop {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
            if let Some(id) = TopicId::from_random(bytes) {
                return Ok(id);
            }
        }
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 128 bits in groups of six from the top; the last group is filled up with zero bits.
        let value = u128::from_be_bytes(self.0);
        let mut text = [0u8; TEXT_LEN];
        for (i, c) in text.iter_mut().enumerate() {
            let group = if i + 1 == TEXT_LEN { value << 4 } else { value >> (122 - 6 * i) };
            *c = ALPHABET[(group & 0x3f) as usize];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 22 characters of base64url that stand for 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseTopicIdError;

impl fmt::Display for ParseTopicIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a topic id: 22 characters of base64url are expected")
    }
}

impl std::error::Error for ParseTopicIdError {}

impl FromStr for TopicId {
    type Err = ParseTopicIdError;

    fn from_str(text: &str) -> Result<TopicId, ParseTopicIdError> {
        let text: &[u8; TEXT_LEN] = text.as_bytes().try_into().map_err(|_| ParseTopicIdError)?;
        let mut value = 0u128;
        for (i, c) in text.iter().enumerate() {
            let digit = ALPHABET.iter().position(|a| a == c).ok_or(ParseTopicIdError)?;
            let digit = digit as u128;
            if i + 1 < TEXT_LEN {
                value = (value << 6) | digit;
            } else if digit & 0x0f == 0 {
                value = (value << 2) | (digit >> 4);
            } else {
                return Err(ParseTopicIdError);
            }
        }
        Ok(TopicId(value.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Golden texts as Kafka's Uuid prints the same bytes.
    #[test]
    fn topic_id_prints_as_kafka_prints_it() {
        assert_eq!(TopicId::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(TopicId::METADATA.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        let bytes = u128::MAX.to_be_bytes();
        assert_eq!(TopicId::from_bytes(bytes).to_string(), "_____________________w");
        let counting = std::array::from_fn(|i| i as u8);
        assert_eq!(TopicId::from_bytes(counting).to_string(), "AAECAwQFBgcICQoLDA0ODw");
    }

    #[test]
    fn random_id_is_v4_and_safe_on_a_command_line() {
        for _ in 0..1000 {
            let id = TopicId::random().expect("random bytes");
            assert_eq!(id.as_bytes()[6] >> 4, 4);
            assert_eq!(id.as_bytes()[8] >> 6, 2);
            assert!(!id.is_reserved());
            assert!(!id.to_string().starts_with('-'));
        }
        let mut dash = [0; 16];
        dash[0] = 62 << 2;
        assert_eq!(TopicId::from_random(dash), None);
    }

    proptest! {
        #[test]
        fn topic_id_text_round_trips(bytes: [u8; 16]) {
            let id = TopicId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }

        #[test]
        fn topic_id_text_has_one_spelling(text in "[A-Za-z0-9_-]{22}") {
            if let Ok(id) = text.parse::<TopicId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
