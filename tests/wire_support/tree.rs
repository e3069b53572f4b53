//! Reads what `{:?}` prints into a tree, so that two codecs can be compared field by field, by name.
//!
//! Struct names and the wrappers of single values do not count; a keyword's escape does not; records
//! and bytes are lists of numbers whether printed as `[97]` or as `b"a"`.

#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Struct(Vec<(String, Tree)>),
    List(Vec<Tree>),
    Some(Box<Tree>),
    None,
    Word(String),
}

pub fn parse(text: &str) -> Tree {
    let mut parser = Parser { text: text.as_bytes(), at: 0 };
    let tree = parser.value();
    assert_eq!(parser.at, text.len(), "unread: {:?}", &text[parser.at..]);
    tree
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn eat(&mut self, expected: u8) -> bool {
        self.spaces();
        let found = self.peek() == expected;
        self.at += usize::from(found);
        self.spaces();
        found
    }

    fn spaces(&mut self) {
        while self.peek() == b' ' {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Tree {
        if self.eat(b'[') {
            return Tree::List(self.list(b']'));
        }
        if self.peek() == b'"' {
            return Tree::Word(self.quoted());
        }
        if self.text[self.at..].starts_with(b"b\"") {
            self.at += 1;
            let text = self.quoted();
            let bytes = text[1..text.len() - 1].bytes();
            return Tree::List(bytes.map(|byte| Tree::Word(byte.to_string())).collect());
        }
        let word = self.word();
        if self.eat(b'{') {
            return Tree::Struct(self.fields());
        }
        if self.eat(b'(') {
            let inner = self.value();
            assert!(self.eat(b')'), "one value in {word}");
            // `Bytes` is how records print; other wrappers are names for plain values.
            return match word.as_str() {
                "Some" | "Bytes" => Tree::Some(Box::new(inner)),
                _ => inner,
            };
        }
        match word.as_str() {
            "None" | "Null" => Tree::None,
            _ => Tree::Word(word),
        }
    }

    fn list(&mut self, end: u8) -> Vec<Tree> {
        let mut items = Vec::new();
        while !self.eat(end) {
            items.push(self.value());
            self.eat(b',');
        }
        items
    }

    fn fields(&mut self) -> Vec<(String, Tree)> {
        let mut fields = Vec::new();
        while !self.eat(b'}') {
            let name = self.word().trim_start_matches('_').to_owned();
            assert!(self.eat(b':'), "a colon behind {name}");
            let value = if self.eat(b'{') {
                self.list(b'}');
                Tree::None
            } else {
                self.value()
            };
            if name != "unknown_tagged_fields" {
                fields.push((name, value));
            }
            self.eat(b',');
        }
        fields
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while !b" ,:()[]{}\0".contains(&self.peek()) {
            self.at += 1;
        }
        assert!(self.at > start, "a word at {start} of {:?}", String::from_utf8_lossy(self.text));
        String::from_utf8(self.text[start..self.at].to_vec()).unwrap()
    }

    fn quoted(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while self.peek() != b'"' {
            self.at += 1 + usize::from(self.peek() == b'\\');
        }
        self.at += 1;
        String::from_utf8(self.text[start..self.at].to_vec()).unwrap()
    }
}
