//! The settings file: TOML, one setting a line.
//!
//! Setting names hold dots, and some are the beginning of others (`max.connections`,
//! `max.connections.per.ip`), which nested TOML tables cannot say without quotes. So a dotted name
//! is taken as one name, quoted or not, and a `[section]` puts its name and a dot before the names
//! below it. Values are strings, whole numbers, decimals, booleans, and arrays of these on one
//! line, which become comma-separated lists. Anything else is refused with its line number.

use std::fmt;

/// One setting of the file, not yet checked against any table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSetting {
    /// Counted from one.
    pub line: usize,
    pub name: String,
    pub value: String,
}

/// What is wrong with the file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    pub line: usize,
    pub what: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Reads the text of a settings file; a name given twice is an error.
pub fn parse(text: &str) -> Result<Vec<FileSetting>, FileError> {
    let mut settings: Vec<FileSetting> = Vec::new();
    let mut section = String::new();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let at = |what: String| FileError { line, what };
        let mut cursor = Cursor { rest: raw.trim() };
        if cursor.rest.is_empty() || cursor.rest.starts_with('#') {
            continue;
        }
        if cursor.take('[') {
            section = cursor.name().map_err(at)? + ".";
            cursor.expect(']').map_err(at)?;
            cursor.end().map_err(at)?;
            continue;
        }
        let name = section.clone() + &cursor.name().map_err(at)?;
        cursor.expect('=').map_err(at)?;
        let value = cursor.value().map_err(at)?;
        cursor.end().map_err(at)?;
        if let Some(first) = settings.iter().find(|setting| setting.name == name) {
            return Err(at(format!("{name} is given twice, first in line {}", first.line)));
        }
        settings.push(FileSetting { line, name, value });
    }
    Ok(settings)
}

/// What is left of a line.
struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    /// A dotted name, each part bare or quoted.
    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        loop {
            self.blanks();
            let part = match self.rest.chars().next() {
                Some('"' | '\'') => self.quoted()?,
                _ => self.bare(),
            };
            if part.is_empty() {
                return Err("a setting's name is expected: name = value".to_owned());
            }
            name.push_str(&part);
            self.blanks();
            if !self.take('.') {
                return Ok(name);
            }
            name.push('.');
        }
    }

    fn value(&mut self) -> Result<String, String> {
        self.blanks();
        if !self.take('[') {
            return self.scalar();
        }
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.take(']') {
                return Ok(items.join(","));
            }
            items.push(self.scalar()?);
            self.blanks();
            if !self.take(',') {
                self.expect(']')?;
                return Ok(items.join(","));
            }
        }
    }

    fn scalar(&mut self) -> Result<String, String> {
        if self.rest.starts_with("\"\"\"") || self.rest.starts_with("'''") {
            return Err("a text over several lines is no setting's value".to_owned());
        }
        if self.rest.starts_with(['"', '\'']) {
            return self.quoted();
        }
        let end = self.rest.find([',', ']', '#', ' ', '\t']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let number = word.replace('_', "");
        let is_number = number.parse::<i64>().is_ok() || number.parse::<f64>().is_ok();
        match word {
            "true" | "false" => Ok(word.to_owned()),
            "" => Err("a value is expected after the =".to_owned()),
            _ if is_number && number.starts_with(|c: char| "+-0123456789".contains(c)) => {
                Ok(number)
            }
            _ => Err(format!(
                "{word} is neither a number nor true or false; quote a text: \"{word}\""
            )),
        }
    }

    /// A "basic" or 'literal' string.
    fn quoted(&mut self) -> Result<String, String> {
        let mut chars = self.rest.char_indices();
        let quote = match chars.next() {
            Some((_, quote)) => quote,
            None => return Err("a quoted text is expected".to_owned()),
        };
        let mut text = String::new();
        while let Some((at, char)) = chars.next() {
            if char == quote {
                self.rest = &self.rest[at + char.len_utf8()..];
                return Ok(text);
            }
            if char != '\\' || quote == '\'' {
                text.push(char);
                continue;
            }
            match chars.next().map(|(_, escaped)| escaped) {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(same @ ('"' | '\\')) => text.push(same),
                Some(other) => return Err(format!("\\{other} is no escape that is known here")),
                None => break,
            }
        }
        Err(format!("the closing {quote} is missing"))
    }

    fn bare(&mut self) -> String {
        let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let end = self.rest.find(|c| !is_bare(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        self.blanks();
        if self.take(wanted) {
            return Ok(());
        }
        let found: String = self.rest.chars().take(20).collect();
        let found = if found.is_empty() { "the end of the line".to_owned() } else { found };
        Err(format!("{wanted} is expected, found {found}"))
    }

    fn end(&mut self) -> Result<(), String> {
        self.blanks();
        if self.rest.is_empty() || self.rest.starts_with('#') {
            return Ok(());
        }
        Err(format!("nothing is expected after the value, found {}", self.rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().map(|s| (s.name, s.value)).collect()
    }

    #[test]
    fn dotted_names_sections_and_every_kind_of_value_are_read() {
        let text = "# comment\n\nmax.connections = 1_000 # many\nmax.connections.per.ip = 5\n\
                    \"listeners\" = \"A://[::1]:9\" \n'log'.dirs='C:\\x'\n[log]\n\
                    roll.ms = -1\n  message.timestamp.type = \"Log\\\"A\"\nlist = [\"a\", 'b',1,]\n\
                    flag = true\nnone = []\n";
        let expected = [
            ("max.connections", "1000"),
            ("max.connections.per.ip", "5"),
            ("listeners", "A://[::1]:9"),
            ("log.dirs", "C:\\x"),
            ("log.roll.ms", "-1"),
            ("log.message.timestamp.type", "Log\"A"),
            ("log.list", "a,b,1"),
            ("log.flag", "true"),
            ("log.none", ""),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn faults_name_their_line() {
        let cases = [
            ("\na = 1\na = 2", 3, "first in line 2"),
            ("a", 1, "= is expected"),
            ("a = 7d", 1, "quote a text"),
            ("a = \"x", 1, "closing"),
            ("a = 1 2", 1, "nothing is expected"),
            ("a = \"\"\"x", 1, "several lines"),
            ("= 1", 1, "name"),
            ("[a", 1, "] is expected"),
            ("a = ", 1, "a value is expected"),
            ("a.b = 1\n[a]\nb = 2", 3, "given twice"),
            ("a = \"\\q\"", 1, "escape"),
        ];
        for (text, line, part) in cases {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
