//! HTML and SVG as elements that escape what they are given, so that a page is well-formed whatever the names
//! in it are.

use std::fmt::{self, Display, Write};

use crate::output::is_unprintable;

/// Elements of HTML that have no end tag. All others get one, as browsers want it.
const WITHOUT_END: [&str; 2] = ["br", "meta"];

/// An element with what is in it. Attributes come before content.
#[derive(Clone, Debug)]
pub struct Element {
    name: &'static str,
    attributes: String,
    content: String,
}

/// An empty element.
pub fn element(name: &'static str) -> Element {
    Element { name, attributes: String::new(), content: String::new() }
}

impl Element {
    pub fn attr(mut self, name: &str, value: impl Display) -> Element {
        let _ = write!(self.attributes, " {name}=\"{}\"", escape(&value.to_string()));
        self
    }

    pub fn class(self, name: impl Display) -> Element {
        self.attr("class", name)
    }

    pub fn text(mut self, text: impl Display) -> Element {
        self.content += &escape(&text.to_string());
        self
    }

    pub fn child(mut self, child: Element) -> Element {
        let _ = write!(self.content, "{child}");
        self
    }

    pub fn children(self, children: impl IntoIterator<Item = Element>) -> Element {
        children.into_iter().fold(self, Element::child)
    }

    /// Content as it is: a style sheet, JSON from [`script_json`].
    pub fn raw(mut self, content: &str) -> Element {
        self.content += content;
        self
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Element { name, attributes, content } = self;
        if WITHOUT_END.contains(name) {
            return write!(f, "<{name}{attributes}/>");
        }
        write!(f, "<{name}{attributes}>{content}</{name}>")
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(' '),
            c if is_unprintable(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// JSON that can stand in a `script` element: nothing in it ends the element or begins a comment, and it is
/// still the same JSON.
pub fn script_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => escaped.push(c),
            '<' | '>' | '&' => _ = write!(escaped, "\\u{:04x}", u32::from(c)),
            c if is_unprintable(c) => _ = write!(escaped, "\\u{:04x}", u32::from(c)),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_escape_what_they_are_given() {
        let link = element("p").attr("title", "\"'<&").text("</p>\u{1b}[31m").child(element("br")).text(1.5);
        assert_eq!(link.to_string(), "<p title=\"&quot;&#39;&lt;&amp;\">&lt;/p&gt;\u{fffd}[31m<br/>1.5</p>");
    }

    #[test]
    fn json_in_a_script_is_the_same_json() {
        let json = r#"{"a": "</script><!--<script>& 'é'"}"#;
        let escaped = script_json(json);
        assert!(!escaped.contains(['<', '>', '&']), "{escaped}");
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(parse(&escaped), parse(json));
    }
}
