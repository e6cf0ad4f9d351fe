//! Parses Prometheus' text format.

use thiserror::Error;

/// One line of the text that is not a comment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its family's name.
    pub name: String,
    /// Labels, in the order of the text.
    pub labels: Vec<(String, String)>,
    /// Its value. Counts past 2^53 are rounded.
    pub value: f64,
}

impl Sample {
    /// The value of a label; empty, as Prometheus has it, where it is absent.
    pub fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(label, _)| label == name).map_or("", |(_, value)| value)
    }
}

/// Text that is not in Prometheus' format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} is not in Prometheus' text format: {what}")]
pub struct ParseError {
    /// Which line, from 1 on.
    pub line: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// The samples of a text, in its order. Comments are skipped, and so are times of samples.
///
/// # Errors
/// [`ParseError`] for the first line that is wrong.
pub fn parse(text: &str) -> Result<Vec<Sample>, ParseError> {
    let is_sample = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with('#');
    let lines = text.lines().map(str::trim).enumerate().filter(is_sample);
    lines.map(|(i, line)| sample(line).map_err(|what| ParseError { line: i + 1, what })).collect()
}

fn sample(line: &str) -> Result<Sample, &'static str> {
    let (name, rest) = name(line)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let mut words = rest.split_ascii_whitespace();
    let value = words.next().ok_or("a value is missing")?;
    let value = value.parse().map_err(|_| "the value is not a number")?;
    if words.next().is_some_and(|time| time.parse::<i64>().is_err()) || words.next().is_some() {
        return Err("something follows the value");
    }
    Ok(Sample { name: name.to_owned(), labels, value })
}

/// A name of a sample or a label, and what follows.
fn name(text: &str) -> Result<(&str, &str), &'static str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name.starts_with(|c: char| !c.is_ascii_digit()) {
        true => Ok((name, rest)),
        false => Err("a name is missing"),
    }
}

type Labelled<'a> = (Vec<(String, String)>, &'a str);

/// Labels up to the closing brace, and what follows.
fn labels(text: &str) -> Result<Labelled<'_>, &'static str> {
    let mut labels = Vec::new();
    let mut rest = text.trim_start();
    while !rest.starts_with('}') {
        let (label, after) = name(rest)?;
        let after = after.trim_start().strip_prefix('=').ok_or("a label has no value")?;
        let quoted = after.trim_start().strip_prefix('"').ok_or("a label's value has no quotes")?;
        let (value, after) = unquote(quoted)?;
        labels.push((label.to_owned(), value));
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.starts_with('}') => after,
            None => return Err("the labels do not end"),
        };
    }
    Ok((labels, &rest[1..]))
}

/// A label's value up to the closing quote, and what follows.
fn unquote(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match characters.next() {
                Some((_, 'n')) => '\n',
                Some((_, escaped @ ('\\' | '"'))) => escaped,
                _ => return Err("an unknown escape in a label's value"),
            }),
            other => value.push(other),
        }
    }
    Err("a label's value does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, labels: &[(&str, &str)], value: f64) -> Sample {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Sample { name: name.to_owned(), labels, value }
    }

    #[test]
    fn the_example_of_the_format_is_read() {
        // After the example in Prometheus' description of the format.
        let text = r#"
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9
metric_without_timestamp_and_labels 12.47
something_weird{problem="division by zero",} +Inf -3982045
"#;
        let samples = parse(text).expect("valid");
        let path = [("path", "C:\\DIR\\FILE.TXT"), ("error", "Cannot find file:\n\"FILE.TXT\"")];
        let expected = [
            parsed("http_requests_total", &[("method", "post"), ("code", "200")], 1027.0),
            parsed("http_requests_total", &[("method", "post"), ("code", "400")], 3.0),
            parsed("msdos_file_access_time_seconds", &path, 1_458_255_915.0),
            parsed("metric_without_timestamp_and_labels", &[], 12.47),
            parsed("something_weird", &[("problem", "division by zero")], f64::INFINITY),
        ];
        assert_eq!(samples, expected);
        assert_eq!((samples[0].label("code"), samples[0].label("absent")), ("200", ""));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = [
            ("a", "a value is missing"),
            ("a b", "the value is not a number"),
            ("a 1 b", "something follows the value"),
            ("a 1 2 3", "something follows the value"),
            ("1a 1", "a name is missing"),
            ("a{b} 1", "a label has no value"),
            ("a{b=c} 1", "a label's value has no quotes"),
            ("a{b=\"c} 1", "a label's value does not end"),
            ("a{b=\"\\t\"} 1", "an unknown escape in a label's value"),
            ("a{b=\"c\" d=\"e\"} 1", "the labels do not end"),
            ("a{b=\"c\"", "the labels do not end"),
            ("a{", "a name is missing"),
            ("<html>", "a name is missing"),
        ];
        for (line, what) in wrong {
            let error = parse(&format!("fine 1\n\n{line}\n")).expect_err(line);
            assert_eq!(error, ParseError { line: 3, what }, "{line}");
        }
    }
}
